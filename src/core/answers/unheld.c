/* Rows of the ledger that a walk did not meet. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/build.h"
#include "../base/errors.h"
#include "../ledger/samples.h"
#include "../ledger/sites.h"
#include "describe.h"
#include "unheld.h"

#include <stdlib.h>

typedef struct {
    uint64_t site, stack; /* numbers */
    uint64_t bytes;
    uint32_t count, generations, first, last;
    uint32_t alive; /* of the line, whoever has them */
    uint16_t device;
} unheld;

typedef struct {
    unheld *items; /* owned */
    uint32_t count, capacity;
    ia_ptrmap of_site;
    ia_ptrmap births; /* site and birth together */
    int failed;
} unhelds;

static int
is_unheld(const ia_row *row, const ia_walk *w, const ia_wanted *wanted)
{
    uint32_t birth =
        ia_birth_by(wanted->clock, row->position, row->generation);
    /* What the last step made may be in the hands of the running call. */
    if (row->key == 0 || row->allowed || row->array ||
        row->generation >= wanted->now ||
        !ia_is_wanted(wanted, ia_stack_site(row->stack), birth))
        return 0;
    uint32_t at = ia_ptrmap_get(&w->storages->index, row->key);
    return at == IA_PTRMAP_NONE ||
           w->storages->items[at].entry == IA_NO_ENTRY;
}

static unheld *
of_site(unhelds *u, uint32_t site)
{
    uint32_t i = ia_ptrmap_get(&u->of_site, (uintptr_t)site + 1);
    if (i != IA_PTRMAP_NONE)
        return &u->items[i];
    if (IA_ROOM(u->items, u->capacity, u->count + 1) < 0 ||
        ia_ptrmap_set(&u->of_site, (uintptr_t)site + 1, u->count) < 0)
        return NULL;
    u->items[u->count] =
        (unheld){.site = ia_site_number(site),
                 .first = UINT32_MAX,
                 .alive = ia_ledger_site(site)->live_count};
    return &u->items[u->count++];
}

static void
add(unhelds *u, const ia_row *row, ia_clock clock)
{
    uint32_t site = ia_stack_site(row->stack);
    uint32_t birth = ia_birth_by(clock, row->position, row->generation);
    uintptr_t key = ((uintptr_t)site + 1) << 32 | birth;
    unheld *one = of_site(u, site);
    if (one == NULL) {
        u->failed = 1;
        return;
    }
    if (ia_ptrmap_get(&u->births, key) == IA_PTRMAP_NONE) {
        one->generations++;
        if (ia_ptrmap_set(&u->births, key, 0) < 0)
            u->failed = 1;
    }
    if (birth >= one->last || one->count == 0) {
        one->last = birth;
        one->stack = ia_stack_number(row->stack);
        one->device = row->device;
    }
    if (birth < one->first)
        one->first = birth;
    one->count++;
    one->bytes += row->bytes;
}

/* What else such lines bear shows who in C++ it was.  With the lock. */
static void
want_samples(const unhelds *u)
{
    uint64_t sites[IA_SAMPLED_SITES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < u->count && count < IA_SAMPLED_SITES; i++)
        if (2 * u->items[i].count >= u->items[i].alive)
            sites[count++] = u->items[i].site;
    ia_samples_want(sites, count);
}

PyObject *
ia_unheld_build(const ia_walk *w, const ia_wanted *wanted)
{
    unhelds u = {0};
    PyObject *list = NULL;
    uint32_t rows;
    ia_ledger_lock();
    const ia_row *row = ia_ledger_rows(&rows);
    for (uint32_t i = 0; w->graph && i < rows && !u.failed; i++)
        if (is_unheld(&row[i], w, wanted))
            add(&u, &row[i], wanted->clock);
    want_samples(&u);
    ia_ledger_unlock();
    if (u.failed)
        ia_no_memory();
    else
        list = PyList_New(0);
    for (const unheld *i = u.items; list && i < u.items + u.count; i++)
        ia_list_add(&list, Py_BuildValue(
                               "(KKNIKIII)", (unsigned long long)i->site,
                               (unsigned long long)i->stack,
                               ia_device_build(i->device), i->count,
                               (unsigned long long)i->bytes, i->generations,
                               i->first, i->last));
    free(u.items);
    ia_ptrmap_free(&u.of_site);
    ia_ptrmap_free(&u.births);
    return list;
}
