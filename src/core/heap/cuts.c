/* References that a walk must not follow. */

#include "../base/compat.h"
#include "walk.h"

#include <stdlib.h>

/* Stands for the parent of a root in the table of cuts. */
#define IA_NO_PARENT UINTPTR_MAX

uint32_t
ia_cuts_find(const ia_walk *w, uintptr_t parent)
{
    return ia_ptrmap_get(&w->cut_of, parent ? parent : IA_NO_PARENT);
}

int
ia_cuts_have(const ia_walk *w, uint32_t first, uintptr_t child)
{
    if (first >= w->ncuts)
        return 0;
    uintptr_t parent = w->cuts[first].parent;
    uint32_t low = first, high = w->ncuts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const ia_cut *c = &w->cuts[middle];
        if (c->parent != parent || c->child >= child)
            high = middle;
        else
            low = middle + 1;
    }
    return low < w->ncuts && w->cuts[low].parent == parent &&
           w->cuts[low].child == child;
}

static int
by_parent_and_child(const void *a, const void *b)
{
    const ia_cut *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->child != y->child)
        return x->child < y->child ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

void
ia_cuts_order(ia_cut *cuts, uint32_t count)
{
    qsort(cuts, count, sizeof *cuts, by_parent_and_child);
}

int
ia_walk_set_cuts(ia_walk *w, const ia_cut *cuts, uint32_t count)
{
    w->cuts = cuts;
    w->ncuts = count;
    for (uint32_t i = count; i-- > 0;)
        if (ia_ptrmap_set(&w->cut_of,
                          cuts[i].parent ? cuts[i].parent : IA_NO_PARENT,
                          i) < 0)
            return -1;
    return 0;
}
