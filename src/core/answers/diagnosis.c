/* One diagnosis: walk, holders, names and costs in a single call.
 *
 * Everything between the first root and the last name happens under the GIL,
 * with the collector off, without Python code: no pointer outlives the call.
 * It is switched off and on while the GIL is kept, so that nobody sees it.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/clock.h"
#include "../base/errors.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "../steps/steps.h"
#include "../steps/unseen.h"
#include "../heap/unrooted.h"
#include "../holders/alike.h"
#include "../holders/cutting.h"
#include "../holders/doubles.h"
#include "../holders/shared.h"
#include "diagnosis.h"
#include "found.h"

#include <stdlib.h>
#include <string.h>

static int
read_sites(ia_diagnosis *d, PyObject *sites, uint8_t mark)
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
read_wanted(ia_diagnosis *d, const ia_asked_sites *asked)
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
is_of_last_step(const ia_diagnosis *d, const ia_row *row)
{
    return row->generation >= d->wanted.now;
}

static int
is_asked_for(const ia_diagnosis *d, const ia_row *row)
{
    return (d->roots.near && d->all) ||
           (!is_of_last_step(d, row) &&
            ia_is_wanted(
                &d->wanted, ia_stack_site(row->stack),
                ia_birth_by(d->wanted.clock, row->position, row->generation)));
}

static int
is_missed(const ia_diagnosis *d, const ia_row *row)
{
    uint32_t at = ia_ptrmap_get(&d->storages.index, row->key);
    return at == IA_PTRMAP_NONE || d->storages.items[at].entry == IA_NO_ENTRY;
}

/* Of a line of which there is no more, only larger, all that there is may be
 * of the last step.  A near walk that missed more than half of its bytes may
 * have missed what grows. */
static int
is_of_what_grows(const ia_diagnosis *d, const ia_row *row)
{
    return d->roots.near && is_of_last_step(d, row) &&
           ia_is_any_age(&d->wanted, ia_stack_site(row->stack));
}

/* Did the walk miss a storage that is asked for? */
static int
is_incomplete(ia_diagnosis *d)
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
walk_unrooted(ia_diagnosis *d)
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
walk(ia_diagnosis *d)
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
count_older(ia_diagnosis *d)
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
above(const ia_diagnosis *d, uint32_t holder)
{
    return holder < d->w.rooted_entries ? d->w.queue[holder].parent
                                        : IA_NO_ENTRY;
}

static int
find(ia_diagnosis *d)
{
    if (ia_groups_find(&d->w, &d->wanted, &d->groups) < 0 ||
        ia_holders_find(&d->w, &d->groups, &d->wanted, IA_MAX_HOLDERS,
                        &d->holders) < 0 ||
        ia_holders_cut(&d->w, &d->groups, &d->holders) < 0)
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

static void
finish(ia_diagnosis *d)
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
    ia_diagnosis d = {
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
        result = ia_diagnosis_build(&d);
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
