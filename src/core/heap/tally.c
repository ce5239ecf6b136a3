/* Python's objects by type, counted by a walk.
 *
 * A walk follows containers; numbers, strings and what else leads nowhere are
 * no entries of its queue, so they are counted where a reference to one is
 * met.  What no root leads to is on the collector's lists.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../ledger/journal.h"
#include "reached.h"
#include "tally.h"

#include <stdlib.h>

int
ia_tally_begin(ia_tally *t)
{
    ia_footprint_begin();
    *t = (ia_tally){.counted = ia_bitmap_new()};
    return t->counted == NULL ? -1 : 0;
}

void
ia_tally_free(ia_tally *t)
{
    ia_bitmap_free(t->counted);
    ia_ptrmap_free(&t->of_type);
    free(t->types);
    *t = (ia_tally){0};
}

static ia_type_total *
total_of(ia_tally *t, PyTypeObject *type)
{
    if (type != t->last_type) {
        uint32_t i = ia_ptrmap_get(&t->of_type, (uintptr_t)type);
        if (i == IA_PTRMAP_NONE) {
            if (IA_ROOM(t->types, t->capacity, (uint64_t)t->ntypes + 1) < 0 ||
                ia_ptrmap_set(&t->of_type, (uintptr_t)type, t->ntypes) < 0) {
                t->failed = 1;
                return NULL;
            }
            i = t->ntypes++;
            t->types[i] = (ia_type_total){.type = type, .by = IA_NO_ENTRY};
        }
        t->last_type = type;
        t->last = i;
    }
    return &t->types[t->last];
}

/* Blocks below the least size that the ledger takes in, and older ones. */
static void
add_array(ia_tally *t, PyObject *op)
{
    ia_storage block;
    if (!ia_ndarray_block(op, &block))
        return;
    ia_ledger_lock();
    int known = ia_ledger_find(block.data) != NULL;
    ia_ledger_unlock();
    if (!known)
        t->arrays += block.bytes;
}

static void
vote(ia_type_total *total, uint32_t by, uint64_t bytes)
{
    if (total->by == by) {
        total->votes += bytes;
    } else if (total->votes >= bytes) {
        total->votes -= bytes;
    } else {
        total->by = by;
        total->votes = bytes - total->votes;
    }
}

void
ia_tally_add(ia_tally *t, PyObject *op, uint32_t by)
{
    ia_footprint f;
    if (ia_bitmap_mark(t->counted, (uintptr_t)op))
        return;
    ia_type_total *total = total_of(t, Py_TYPE(op));
    if (total == NULL)
        return;
    ia_footprint_of(op, &f);
    total->count++;
    total->bytes += f.bytes;
    vote(total, by, f.bytes);
    t->bytes += f.bytes;
    t->malloc += f.malloc;
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_NDARRAY)
        add_array(t, op);
}

int
ia_tally_add_own(ia_tally *t, PyObject *op)
{
    ia_footprint f;
    if (ia_bitmap_mark(t->counted, (uintptr_t)op))
        return 0;
    ia_footprint_of(op, &f);
    t->own += f.bytes;
    t->own_malloc += f.malloc;
    return 1;
}
