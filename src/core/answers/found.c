#include "../base/compat.h"
#include "../base/build.h"
#include "../base/errors.h"
#include "../base/ndarray.h"
#include "../base/read.h"
#include "../heap/turns.h"
#include "../holders/bounds.h"
#include "../holders/keys.h"
#include "../holders/visits.h"
#include "../ledger/frames.h"
#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "../names/path.h"
#include "describe.h"
#include "found.h"
#include "unheld.h"

#include <stdlib.h>

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
build_groups(const ia_diagnosis *d, const ia_holder *k)
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
build_owners(const ia_diagnosis *d, uint32_t entry)
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
build_object(const ia_diagnosis *d, const ia_holder *k)
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
build_visit(const ia_diagnosis *d, uint32_t entry)
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
build_cycle(const ia_diagnosis *d, uint32_t entry, int *forever)
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
end_of_path(ia_diagnosis *d, const ia_holder *k, uint32_t entry)
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
shown_by(const ia_diagnosis *d, uint32_t entry)
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
build_path(ia_diagnosis *d, uint32_t i, Py_ssize_t *depth, PyObject **ways)
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
build_holder(ia_diagnosis *d, uint32_t i)
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
            "s:(IIK),s:(IIIIN),s:i,s:i,s:N,s:I,s:I,s:i,s:I,s:i}",
            "site",
            number_of_site(primary->site), "holder_depth", depth, "path",
            path, "ways", ways, "object", object, "groups", groups, "cost", cost,
            "example", tensor, "cycle", cycle, "forever", forever, "stack",
            number_of_stack(example->stack), "generation",
            ia_birth_by(d->wanted.clock, example->position,
                        example->generation), "purpose",
            ia_purpose_name(primary->purpose), "visit", visit, "branches",
            k->branches, "others", k->others, k->others_count,
            (unsigned long long)k->others_bytes, "sort", k->sort_members,
            k->sort_generations, k->sort_began, k->sort_ended,
            PyBool_FromLong(k->in_turn), "shared", d->shared[i], "with_alike",
            d->costs[i].with_alike, "needed", needed, "older", d->older[i],
            "doubles", d->doubles[i], "turn",
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
find_needed(ia_diagnosis *d)
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
build_holders(ia_diagnosis *d)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < d->holders.count; i++)
        ia_list_add(&list, build_holder(d, i));
    return list;
}

PyObject *
ia_diagnosis_build(ia_diagnosis *d)
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
