/* Others of a holder's sort that hold what it holds. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/ptrmap.h"
#include "../base/read.h"
#include "doubles.h"
#include "parting.h"

#include <stdlib.h>

/* From a storage up to what has it: an item, or one in an item. */
#define MOST_HOPS 8
/* Items of an item that are looked at, and how deep. */
#define MOST_DEPTH 2

/* A container holds its own storages, and as many of a holder's. */
typedef struct {
    const ia_walk *w;
    const uint32_t *holder_of; /* by storage: its holder + 1, or 0 */
    uint32_t holder;
    uint32_t count, same;
    int depth;
} comparison;

static int
is_wanted(const ia_walk *w, const ia_holder *k, const ia_cost *cost)
{
    return k->parts >= 2 && k->others == 0 && 2 * cost->storages < k->count &&
           ia_entry_is_container(w, k->entry);
}

/* Its place among those that were reached; IA_PTRMAP_NONE: it is none. */
static uint32_t
storage_behind(const ia_storages *all, PyObject *tensor)
{
    ia_storage memory;
    if (!ia_the_framework->storage_of(tensor, &memory))
        return IA_PTRMAP_NONE;
    uint32_t at = memory.data != 0 ? ia_ptrmap_get(&all->index, memory.data)
                                   : IA_PTRMAP_NONE;
    return at == IA_PTRMAP_NONE && memory.impl != 0
               ? ia_ptrmap_get(&all->index, memory.impl)
               : at;
}

static int
compare_item(PyObject *op, void *arg)
{
    comparison *c = arg;
    if (op == NULL)
        return 0;
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR) {
        uint32_t at = storage_behind(c->w->storages, op);
        c->count++;
        c->same += at != IA_PTRMAP_NONE && c->holder_of[at] == c->holder + 1;
    } else if (c->depth < MOST_DEPTH && ia_container_length(op) >= 0 &&
               Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op)) {
        c->depth++;
        Py_TYPE(op)->tp_traverse(op, compare_item, c);
        c->depth--;
    }
    return 0;
}

/* Is most of what it has the holder's? */
static int
holds_the_same(const ia_walk *w, const uint32_t *holder_of, uint32_t holder,
               uint32_t entry)
{
    comparison c = {.w = w, .holder_of = holder_of, .holder = holder};
    compare_item((PyObject *)w->queue[entry].ref, &c);
    return c.count > 0 && 2 * c.same > c.count;
}

/* Does the way to it differ from that to the other by one item of a container,
 * and by what that leads to, which is of the same types? */
static int
is_of_its_sort(const ia_walk *w, uint32_t one, uint32_t other)
{
    while (one != other) {
        uint32_t up = w->queue[one].parent;
        uintptr_t a = w->queue[one].ref, b = w->queue[other].ref;
        if (up == IA_NO_ENTRY || w->queue[other].parent == IA_NO_ENTRY ||
            IA_TAG(a) != IA_TAG_OBJECT || IA_TAG(b) != IA_TAG_OBJECT ||
            Py_TYPE((PyObject *)a) != Py_TYPE((PyObject *)b))
            return 0;
        if (up == w->queue[other].parent)
            return ia_entry_is_container(w, up);
        one = up;
        other = w->queue[other].parent;
    }
    return 0;
}

/* Whose each storage is; NULL when memory is short. */
static uint32_t *
list_storages(const ia_walk *w, const ia_ptrmap *holder_at)
{
    const ia_storages *all = w->storages;
    uint32_t *holder_of = calloc((size_t)all->count + 1, sizeof *holder_of);
    for (uint32_t i = 0; holder_of != NULL && i < all->count; i++) {
        uint32_t at = all->items[i].entry;
        for (int hop = 0; hop < MOST_HOPS && at != IA_NO_ENTRY; hop++) {
            uint32_t k = ia_ptrmap_get(holder_at, (uintptr_t)at + 1);
            if (k != IA_PTRMAP_NONE) {
                holder_of[i] = k + 1;
                break;
            }
            at = w->queue[at].parent;
        }
    }
    return holder_of;
}

static void
count_doubles(const ia_walk *w, const uint32_t *holder_of, uint32_t i,
              uint32_t holder, uint32_t *doubles)
{
    PyTypeObject *type = Py_TYPE((PyObject *)w->queue[holder].ref);
    for (uint32_t at = 0; at < w->count && at < w->rooted_entries; at++) {
        uintptr_t ref = w->queue[at].ref;
        if (IA_TAG(ref) == IA_TAG_OBJECT &&
            Py_TYPE((PyObject *)ref) == type && at != holder &&
            is_of_its_sort(w, holder, at) &&
            holds_the_same(w, holder_of, i, at))
            doubles[i]++;
    }
}

int
ia_doubles_count(const ia_walk *w, const ia_holders *holders,
                 const ia_cost *costs, uint32_t *doubles)
{
    ia_ptrmap holder_at = {0};
    int wanted = 0, result = 0;
    for (uint32_t i = 0; w->graph && i < holders->count && result == 0; i++) {
        const ia_holder *k = &holders->items[i];
        if (!is_wanted(w, k, &costs[i]))
            continue;
        wanted++;
        result = ia_ptrmap_set(&holder_at, (uintptr_t)k->entry + 1, i);
    }
    uint32_t *holder_of = wanted && result == 0
                              ? list_storages(w, &holder_at)
                              : NULL;
    if (wanted && holder_of == NULL)
        result = -1;
    for (uint32_t i = 0; holder_of != NULL && i < holders->count; i++)
        if (is_wanted(w, &holders->items[i], &costs[i]))
            count_doubles(w, holder_of, i, holders->items[i].entry, doubles);
    free(holder_of);
    ia_ptrmap_free(&holder_at);
    return result;
}
