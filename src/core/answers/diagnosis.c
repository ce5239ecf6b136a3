/* One diagnosis: walk, holders, names and costs in a single call.
 *
 * Everything between the first root and the last name happens under the GIL,
 * with the collector off, without Python code: no pointer outlives the call.
 * It is switched off and on while the GIL is kept, so that nobody sees it.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/build.h"
#include "../base/clock.h"
#include "../base/errors.h"
#include "../base/ndarray.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "../steps/steps.h"
#include "../steps/unseen.h"
#include "../heap/crossings.h"
#include "../heap/turns.h"
#include "../heap/unrooted.h"
#include "../heap/weigh.h"
#include "../names/path.h"
#include "../holders/bounds.h"
#include "../holders/cutting.h"
#include "../holders/alike.h"
#include "../holders/doubles.h"
#include "../holders/keys.h"
#include "../holders/parting.h"
#include "../holders/shared.h"
#include "../holders/visits.h"
#include "describe.h"
#include "diagnosis.h"
#include "needed.h"
#include "unheld.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ia_wanted wanted;
    ia_walk w;
    ia_crossings crossings;
    ia_storages storages;
    ia_roots roots;
    ia_groups groups;
    ia_holders holders;
    ia_cost *costs;
    ia_needed *needed; /* owned; by holder: who reads its example */
    uint8_t *shared; /* owned; by holder: others hold the same */
    uint32_t *together; /* owned; by holder: the first on its graph */
    uint32_t *older; /* owned; by holder: items of before the watch */
    uint32_t *doubles; /* owned; by holder: others that hold the same */
    uint64_t *missed; /* owned; by site: bytes that a near walk did not meet */
    int still; /* what walk_begin said */
    int remember; /* paths, so that they can be visited */
    int near; /* what libraries' modules hold need not be asked */
    int all;  /* no site is asked for: all that is alive is */
    int measures_ways;
    ia_ways ways; /* to the holders, where they are measured */
    ia_tally tally; /* of what is in the heap, where it is asked for */
    double seconds;
} diagnosis;

static int
read_sites(diagnosis *d, PyObject *sites, uint8_t mark)
{
    PyObject *list =
        sites == NULL
            ? PyTuple_New(0)
            : PySequence_Fast(sites, "sites must be a sequence of int");
    if (list == NULL)
        return -1;
    d->all &= PySequence_Fast_GET_SIZE(list) == 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        unsigned long long number =
            PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(list, i));
        if (PyErr_Occurred())
            break;
        ia_ledger_lock();
        uint32_t site = ia_site_of_number(number);
        ia_ledger_unlock();
        if (site < d->wanted.nsites)
            d->wanted.of_site[site] = mark;
    }
    Py_DECREF(list);
    return PyErr_Occurred() ? -1 : 0;
}

static int
read_wanted(diagnosis *d, const ia_asked_sites *asked)
{
    ia_ledger_lock();
    d->wanted.nsites = ia_ledger_sites();
    d->wanted.clock = ia_stepping_clock();
    d->wanted.since = ia_ledger_warmup();
    /* A look comes when the step has just ended. */
    uint32_t next = ia_ledger_totals_now()->generation;
    d->wanted.now = next ? next - 1 : 0;
    ia_ledger_unlock();
    d->wanted.of_site = calloc(d->wanted.nsites + 1, 1);
    d->missed = calloc((size_t)d->wanted.nsites + 1, sizeof *d->missed);
    if (d->wanted.of_site == NULL || d->missed == NULL)
        return ia_no_memory();
    if (read_sites(d, asked->sites, IA_WANTED) < 0 ||
        read_sites(d, asked->any_age, IA_WANTED_ANY_AGE) < 0 ||
        read_sites(d, asked->anew, IA_WANTED_EACH) < 0)
        return -1;
    return read_sites(d, asked->alone, IA_WANTED_ALONE);
}

/* Those of the last step may be in the hands of the running call. */
static int
is_of_last_step(const diagnosis *d, const ia_row *row)
{
    return row->generation >= d->wanted.now;
}

static int
is_asked_for(const diagnosis *d, const ia_row *row)
{
    return (d->roots.near && d->all) ||
           (!is_of_last_step(d, row) &&
            ia_is_wanted(
                &d->wanted, ia_stack_site(row->stack),
                ia_birth_by(d->wanted.clock, row->position, row->generation)));
}

static int
is_missed(const diagnosis *d, const ia_row *row)
{
    uint32_t at = ia_ptrmap_get(&d->storages.index, row->key);
    return at == IA_PTRMAP_NONE || d->storages.items[at].entry == IA_NO_ENTRY;
}

/* Of a line of which there is no more, only larger, all that there is may be
 * of the last step.  A near walk that missed more than half of its bytes may
 * have missed what grows. */
static int
is_of_what_grows(const diagnosis *d, const ia_row *row)
{
    return d->roots.near && is_of_last_step(d, row) &&
           ia_is_any_age(&d->wanted, ia_stack_site(row->stack));
}

/* Did the walk miss a storage that is asked for? */
static int
is_incomplete(diagnosis *d)
{
    uint32_t rows;
    int missed = 0;
    ia_ledger_lock();
    const ia_row *row = ia_ledger_rows(&rows);
    for (uint32_t i = 0; i < rows && !missed; i++) {
        if (row[i].key == 0 || row[i].allowed)
            continue;
        if (is_asked_for(d, &row[i])) {
            missed = is_missed(d, &row[i]);
        } else if (is_of_what_grows(d, &row[i]) && is_missed(d, &row[i])) {
            uint32_t site = ia_stack_site(row[i].stack);
            d->missed[site] += row[i].bytes;
            missed = 2 * d->missed[site] > ia_ledger_site(site)->live_bytes;
        }
    }
    ia_ledger_unlock();
    return missed;
}

typedef struct {
    PyObject **items; /* owned */
    uint32_t count, capacity;
} words;

/* 0, or -1 when memory is short. */
static int
add_words(words *w, PyObject *const *items, Py_ssize_t count)
{
    if (count == 0)
        return 0;
    if (IA_ROOM(w->items, w->capacity, w->count + (uint64_t)count) < 0)
        return -1;
    memcpy(w->items + w->count, items, (size_t)count * sizeof *items);
    w->count += (uint32_t)count;
    return 0;
}

static int
add_hidden_stacks(words *w, PyThreadState *thread)
{
    PyObject *const *items;
    int result = 0;
    for (ia_frame *f = ia_frame_top(thread); f != NULL && result == 0;
         f = ia_frame_back(f)) {
        int count = ia_frame_hidden_stack(f, &items);
        result = add_words(w, items, count);
    }
    return result;
}

/* What a call that ends just now was given, and what callers on all threads
 * have on stacks that nothing else shows: the list that a comprehension is
 * filling.  Where no call ends, and no statement is under way, nothing. */
static int
walk_unrooted(diagnosis *d)
{
    ia_call_args args = ia_stepping_args();
    words w = {0};
    int result = add_words(&w, args.items, args.count);
    PyThreadState *t =
        args.count > 0 || ia_stepping_in_a_statement()
            ? PyInterpreterState_ThreadHead(PyInterpreterState_Get())
            : NULL;
    for (; t != NULL && result == 0; t = PyThreadState_Next(t))
        result = add_hidden_stacks(&w, t);
    if (result == 0)
        result = ia_walk_unrooted(
            &d->w, &d->roots,
            &(ia_handed){w.items, w.count, (uint32_t)args.count});
    free(w.items);
    return result;
}

static int
walk(diagnosis *d)
{
    if (ia_roots_collect(&d->roots) < 0 ||
        ia_walk_init(&d->w, &d->storages, &d->roots) < 0)
        return ia_no_memory();
    d->w.graph = d->still;
    d->w.tally = d->tally.counted != NULL ? &d->tally : NULL;
    d->w.memory_alone = d->w.tally == NULL;
    d->w.crossings = &d->crossings;
    d->roots.near = d->near;
    ia_walk_from_roots(&d->w);
    if (d->near && is_incomplete(d)) {
        d->roots.near = 0;
        ia_walk_from_libraries(&d->w);
    }
    if (!d->roots.near && is_incomplete(d)) {
        d->w.rooted_entries = d->w.count;
        d->w.rooted_roots = d->roots.count;
        if (walk_unrooted(d) < 0)
            return ia_no_memory();
    }
    if (d->w.failed ||
        (d->w.tally != NULL && ia_weigh(&d->tally, &d->w) < 0))
        return ia_no_memory();
    d->w.tally = NULL;
    return 0;
}

/* Counts the holders' items that lead to memory which was there before the
 * watch.  The way up from an entry is followed once, however many storages
 * share it.  0, or -1 when memory is short. */
static int
count_older(diagnosis *d)
{
    ia_ptrmap holder_at = {0};
    uint8_t *gone_up = calloc((size_t)d->w.count + 1, 1);
    int result = gone_up == NULL ? -1 : 0;
    for (uint32_t i = 0; result == 0 && i < d->holders.count; i++)
        result = ia_ptrmap_set(&holder_at,
                               (uintptr_t)d->holders.items[i].entry + 1, i);
    for (uint32_t i = 0; result == 0 && i < d->storages.count; i++) {
        const ia_reached *r = &d->storages.items[i];
        uint32_t up, at = ia_is_older(r) ? r->entry : IA_NO_ENTRY;
        for (; at != IA_NO_ENTRY && !gone_up[at]; at = up) {
            gone_up[at] = 1;
            up = d->w.queue[at].parent;
            uint32_t k = up == IA_NO_ENTRY
                             ? IA_PTRMAP_NONE
                             : ia_ptrmap_get(&holder_at, (uintptr_t)up + 1);
            if (k != IA_PTRMAP_NONE)
                d->older[k]++;
        }
    }
    ia_ptrmap_free(&holder_at);
    free(gone_up);
    return result;
}

/* What no proper root leads to is garbage or in hand: nothing retains it. */
static uint32_t
above(const diagnosis *d, uint32_t holder)
{
    return holder < d->w.rooted_entries ? d->w.queue[holder].parent
                                        : IA_NO_ENTRY;
}

static int
find(diagnosis *d)
{
    if (ia_groups_find(&d->w, &d->wanted, &d->groups) < 0 ||
        ia_holders_find(&d->w, &d->groups, &d->wanted, IA_MAX_HOLDERS,
                        &d->holders) < 0)
        return ia_no_memory();
    d->costs = calloc(d->holders.count + 1, sizeof *d->costs);
    d->shared = calloc(d->holders.count + 1, sizeof *d->shared);
    d->together = calloc(d->holders.count + 1, sizeof *d->together);
    d->older = calloc(d->holders.count + 1, sizeof *d->older);
    d->doubles = calloc(d->holders.count + 1, sizeof *d->doubles);
    if (d->costs == NULL || d->shared == NULL || d->older == NULL ||
        d->together == NULL || d->doubles == NULL ||
        (d->holders.count > 0 && count_older(d) < 0))
        return ia_no_memory();
    for (uint32_t i = 0; d->measures_ways && i < d->holders.count; i++)
        ia_ways_add(&d->ways, &d->w, above(d, d->holders.items[i].entry), i);
    if (d->holders.count > 0 &&
        (ia_cuts_measure(&d->w, d->holders.cuts, d->holders.ncuts,
                         d->holders.count, d->costs, d->together,
                         &d->ways) < 0 ||
         ia_doubles_count(&d->w, &d->holders, d->costs, d->doubles) < 0 ||
         ia_alike_measure(&d->w, &d->groups, &d->holders, d->costs) < 0 ||
         ia_shared_measure(&d->w, &d->groups, &d->holders, d->costs,
                           d->shared, d->together) < 0))
        return ia_no_memory();
    return 0;
}

/* -- the answer ---------------------------------------------------------- */

static unsigned long long
number_of_site(uint32_t site)
{
    ia_ledger_lock();
    uint64_t number = ia_site_number(site);
    ia_ledger_unlock();
    return number;
}

static unsigned long long
number_of_stack(uint32_t stack)
{
    ia_ledger_lock();
    uint64_t number = ia_stack_number(stack);
    ia_ledger_unlock();
    return number;
}

static PyObject *
build_group(const ia_group *g)
{
    return Py_BuildValue(
        "{s:K,s:I,s:I,s:I,s:I,s:I,s:I,s:K}", "site",
        number_of_site(g->site), "count", g->count, "objects", g->objects,
        "generations", g->generations, "first", g->first_generation, "last",
        g->last_generation, "depth", g->depth, "bytes",
        (unsigned long long)g->bytes);
}

static PyObject *
build_groups(const diagnosis *d, const ia_holder *k)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = k->first; list && i < k->first + k->ngroups; i++)
        ia_list_add(&list, build_group(&d->groups.items[i]));
    return list;
}

/* Owners of a holder that are told: an allowed object may be any of them. */
#define MAX_OWNERS 32

/* Addresses of the holder and of what it hangs on, the holder first. */
static PyObject *
build_owners(const diagnosis *d, uint32_t entry)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < MAX_OWNERS && entry != IA_NO_ENTRY; i++) {
        ia_list_add(&list, PyLong_FromUnsignedLongLong(
                               IA_ADDRESS(d->w.queue[entry].ref)));
        entry = d->w.queue[entry].parent;
    }
    return list;
}

static PyObject *
build_object(const diagnosis *d, const ia_holder *k)
{
    uintptr_t ref = d->w.queue[k->entry].ref;
    char type[128];
    ia_ref_type_name(ref, type, sizeof type);
    if (k->entry < d->w.rooted_entries &&
        d->w.queue[k->entry].parent == IA_NO_ENTRY)
        strcpy(type, "module");
    PyObject *bound = ia_bound_of(&d->w, k->entry);
    if (bound == NULL)
        return NULL;
    Py_ssize_t length = ia_entry_is_container(&d->w, k->entry)
                            ? ia_container_length((PyObject *)ref)
                            : -1;
    PyObject *owners = build_owners(d, k->entry);
    if (owners == NULL) {
        Py_DECREF(bound);
        return NULL;
    }
    return Py_BuildValue(
        "{s:N,s:n,s:N,s:L,s:I,s:N}", "type", ia_str(type), "length", length,
        "bound", bound, "within", ia_bound_within(&d->w, k->entry),
        "lone_keys", length < 0 ? 0 : ia_lone_keys((PyObject *)ref), "owners",
        owners);
}

/* Where visits find the holder again; IA_NO_PATH where they do not, or are not
 * asked for.  NULL with an exception. */
static PyObject *
build_visit(const diagnosis *d, uint32_t entry)
{
    uint32_t number = IA_NO_PATH;
    int container = ia_entry_is_container(&d->w, entry);
    if (d->remember &&
        ia_visits_remember(&d->w, entry, container, &number) < 0)
        return PyErr_NoMemory();
    return PyLong_FromUnsignedLong(number);
}

/* The cycle that the entry hangs on, None where it hangs on none. */
static PyObject *
build_cycle(const diagnosis *d, uint32_t entry, int *forever)
{
    uint32_t member = entry;
    while (d->w.queue[entry].parent != IA_NO_ENTRY) {
        member = entry;
        entry = d->w.queue[entry].parent;
    }
    const ia_root *root = &d->roots.items[d->w.queue[entry].root];
    *forever = root->forever;
    if (root->kind != IA_ROOT_CYCLE && root->kind != IA_ROOT_NATIVE)
        return Py_NewRef(Py_None);
    return ia_cycle_build(d->w.queue[member].ref, d->w.graph, NULL);
}

static int
first_result(PyObject *op, void *arg)
{
    PyObject **found = arg;
    if (op == NULL || ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        ia_the_framework->grad_fn_of(op) == NULL)
        return 0;
    *found = op;
    return 1;
}

/* Where the path to an example ends.  A holder that stands beside the way the
 * walk took, the `state` of `h, c = state`, gets a way of its own. */
static uint32_t
end_of_path(diagnosis *d, const ia_holder *k, uint32_t entry)
{
    uint32_t up = entry;
    while (up != IA_NO_ENTRY && up != k->entry)
        up = d->w.queue[up].parent;
    if (up == k->entry)
        return entry;
    PyObject *op = (PyObject *)d->w.queue[k->entry].ref, *result = NULL;
    Py_TYPE(op)->tp_traverse(op, first_result, &result);
    uint32_t made = result == NULL
                        ? IA_NO_ENTRY
                        : ia_walk_append(&d->w, (uintptr_t)result, k->entry);
    return made != IA_NO_ENTRY ? made : entry;
}

/* What shows the example's memory: of a view of an array, the view, and of a
 * view of that, such as a record, that one. */
static uintptr_t
shown_by(const diagnosis *d, uint32_t entry)
{
    uintptr_t ref = d->w.queue[entry].ref;
    while (IA_TAG(ref) == IA_TAG_OBJECT) {
        entry = d->w.queue[entry].parent;
        if (entry == IA_NO_ENTRY ||
            IA_TAG(d->w.queue[entry].ref) != IA_TAG_OBJECT)
            break;
        PyObject *above = (PyObject *)d->w.queue[entry].ref;
        if (ia_kind_of(Py_TYPE(above)) != IA_KIND_NDARRAY ||
            !ia_ndarray_shows(above, (PyObject *)ref))
            break;
        ref = (uintptr_t)above;
    }
    return ref;
}

static PyObject *
build_path(diagnosis *d, uint32_t i, Py_ssize_t *depth, PyObject **ways)
{
    const ia_holder *k = &d->holders.items[i];
    uint32_t example = d->groups.items[k->primary].example, *objects;
    uint32_t end = end_of_path(d, k, d->storages.items[example].entry);
    PyObject *path = ia_path_trace(&d->w, end, k->entry, depth, &objects);
    *ways = path ? ia_ways_build(&d->ways, i, objects, *depth,
                                 d->measures_ways ? &d->costs[i] : NULL)
                 : NULL;
    PyMem_Free(objects);
    if (*ways == NULL)
        Py_CLEAR(path);
    return path;
}

static PyObject *
build_holder(diagnosis *d, uint32_t i)
{
    const ia_holder *k = &d->holders.items[i];
    const ia_group *primary = &d->groups.items[k->primary];
    const ia_reached *example = &d->storages.items[primary->example];
    Py_ssize_t depth = 0;
    PyObject *ways, *path = build_path(d, i, &depth, &ways);
    PyObject *object = path ? build_object(d, k) : NULL;
    PyObject *groups = object ? build_groups(d, k) : NULL;
    PyObject *cost = groups ? ia_cost_build(&d->costs[i]) : NULL;
    PyObject *tensor = cost ? ia_tensor_build(
                                    shown_by(d, example->entry),
                                    example->device, example->bytes) : NULL;
    int forever = 0;
    PyObject *cycle = tensor ? build_cycle(d, example->entry, &forever)
                             : NULL;
    PyObject *needed = cycle ? ia_needed_build(&d->w, d->needed, i) : NULL;
    PyObject *visit = needed ? build_visit(d, k->entry) : NULL;
    if (visit != NULL)
        return Py_BuildValue(
            "{s:K,s:n,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:i,s:K,s:I,s:s,s:N,s:I,"
            "s:(IIK),s:i,s:i,s:N,s:I,s:I,s:i,s:I,s:i}",
            "site",
            number_of_site(primary->site), "holder_depth", depth, "path",
            path, "ways", ways, "object", object, "groups", groups, "cost", cost,
            "example", tensor, "cycle", cycle, "forever", forever, "stack",
            number_of_stack(example->stack), "generation",
            ia_birth_by(d->wanted.clock, example->position,
                        example->generation), "purpose",
            ia_purpose_name(primary->purpose), "visit", visit, "branches",
            k->branches, "others", k->others, k->others_count,
            (unsigned long long)k->others_bytes, "shared", d->shared[i],
            "with_alike", d->costs[i].with_alike, "needed", needed, "older",
            d->older[i], "doubles", d->doubles[i], "turn",
            ia_turns_own(&d->w, k->entry), "together", d->together[i], "near",
            d->roots.near || k->entry < d->storages.near_entries);
    Py_XDECREF(path);
    Py_XDECREF(ways);
    Py_XDECREF(object);
    Py_XDECREF(groups);
    Py_XDECREF(cost);
    Py_XDECREF(tensor);
    Py_XDECREF(cycle);
    Py_XDECREF(needed);
    return NULL;
}

/* Which nodes will still read the examples. */
static int
find_needed(diagnosis *d)
{
    d->needed = calloc((size_t)d->holders.count + 1, sizeof *d->needed);
    if (d->needed == NULL)
        return ia_no_memory();
    for (uint32_t i = 0; i < d->holders.count; i++) {
        const ia_holder *k = &d->holders.items[i];
        uint32_t example = d->groups.items[k->primary].example;
        d->needed[i].key = d->storages.items[example].key;
    }
    return ia_needed_find(&d->w, d->needed, d->holders.count) < 0
               ? ia_no_memory()
               : 0;
}

static PyObject *
build_holders(diagnosis *d)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < d->holders.count; i++)
        ia_list_add(&list, build_holder(d, i));
    return list;
}

static PyObject *
build(diagnosis *d)
{
    PyObject *holders = find_needed(d) < 0 ? NULL : build_holders(d);
    PyObject *purposes = holders ? ia_purposes_build(&d->storages) : NULL;
    PyObject *older = purposes ? ia_older_build(&d->storages) : NULL;
    PyObject *tally = older == NULL              ? NULL
                      : d->tally.counted != NULL ? ia_tally_build(&d->tally, &d->w)
                                                 : Py_NewRef(Py_None);
    PyObject *unheld = tally ? ia_unheld_build(&d->w, &d->wanted) : NULL;
    if (unheld == NULL) {
        Py_XDECREF(holders);
        Py_XDECREF(purposes);
        Py_XDECREF(older);
        Py_XDECREF(tally);
        return NULL;
    }
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:I,s:O,s:O,s:O,s:d}", "holders", holders,
        "purposes", purposes, "older", older, "tally", tally, "unheld", unheld,
        "left_out", d->holders.left_out, "graph",
        d->w.graph || ia_the_framework == NULL ? Py_True : Py_False, "near",
        d->roots.near ? Py_True : Py_False, "in_libraries",
        d->storages.in_libraries ? Py_True : Py_False, "seconds", d->seconds);
}

static void
finish(diagnosis *d)
{
    if (ia_the_framework != NULL)
        ia_the_framework->walk_end();
    ia_walk_free(&d->w);
    ia_crossings_free(&d->crossings);
    ia_tally_free(&d->tally);
    ia_storages_free(&d->storages);
    ia_roots_free(&d->roots);
    ia_groups_free(&d->groups);
    ia_needed_free(d->needed, d->holders.count);
    free(d->needed);
    ia_holders_free(&d->holders);
    free(d->costs);
    free(d->shared);
    free(d->together);
    free(d->older);
    free(d->doubles);
    free(d->missed);
    free(d->wanted.of_site);
}

PyObject *
ia_diagnose(const ia_asked_sites *asked, int remember, int weigh, int ways,
            int near)
{
    diagnosis d = {
        .remember = remember, .measures_ways = ways, .near = near, .all = 1};
    PyObject *result = NULL;
    double start = ia_seconds();
    ia_collector_hold(); /* others may run until the GIL is kept */
    if (ia_the_framework != NULL)
        d.still = ia_the_framework->walk_begin(1);
    ia_stepping_refresh(); /* the collector may have come since the last */
    int collecting = PyGC_Disable();
    ia_kinds_forget();
    ia_ledger_lock();
    ia_stacks_pin(); /* ids are kept until the answer is made */
    ia_ledger_unlock();
    if (weigh && ia_tally_begin(&d.tally) < 0)
        ia_no_memory();
    else if (read_wanted(&d, asked) == 0 && walk(&d) == 0 &&
             find(&d) == 0) {
        d.seconds = ia_seconds() - start;
        result = build(&d);
    }
    finish(&d);
    ia_ledger_lock();
    ia_stacks_unpin();
    ia_ledger_unlock();
    if (collecting)
        PyGC_Enable();
    ia_collector_release();
    return result;
}
