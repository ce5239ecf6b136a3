/* What would be freed if references were cut.
 *
 * One walk with all cuts made leaves unreached only what the holders retain.
 * For each group that small rest is walked again from the other groups'
 * holders: what stays unreached then would be freed by this group alone.
 */

#include "../base/compat.h"
#include "../names/path.h"
#include "retained.h"

#include <stdlib.h>
#include <string.h>

/* With all holders under proper roots, what only a temporary of a running call
 * or C code holds besides (the result that is just being returned) does not
 * count as held: it is about to let go.  Storages that nothing else holds are
 * no holder's. */
static int
only_proper_roots(const ia_walk *full, const ia_cut *cuts, uint32_t count,
                  ia_marks *marks)
{
    for (uint32_t i = 0; i < count; i++)
        if (cuts[i].entry >= full->rooted_entries)
            return 0;
    for (uint32_t i = 0; i < marks->limit; i++)
        if (full->storages->items[i].entry >= full->rooted_entries &&
            full->storages->items[i].entry != IA_NO_ENTRY)
            marks->of_storage[i] = IA_MARK_KEPT;
    return 1;
}

static int
keep_what_stays(ia_walk *base, const ia_walk *full, const ia_cut *cuts,
                uint32_t count, ia_marks *marks)
{
    if (ia_walk_init(base, full->storages, full->roots) < 0 ||
        ia_walk_set_cuts(base, cuts, count) < 0)
        return -1;
    base->graph = full->graph;
    base->marks = marks;
    if (only_proper_roots(full, cuts, count, marks))
        base->rooted_roots = full->rooted_roots;
    ia_walk_from_roots(base);
    return base->failed ? -1 : 0;
}

/* Makes up for the other groups' cuts whose parents stay reachable. */
static void
undo_others(ia_walk *w, const ia_cut *cuts, uint32_t count, uint32_t group,
            const ia_walk *base)
{
    for (uint32_t i = 0; i < count; i++) {
        const ia_cut *c = &cuts[i];
        if (c->group == group)
            continue;
        if (c->parent == 0)
            ia_walk_follow(w, c->child, IA_NO_ENTRY);
        else if (!ia_bitmap_test(base->seen, IA_ADDRESS(c->parent)))
            continue;
        else if (c->child != 0)
            ia_walk_follow(w, c->child, IA_NO_ENTRY);
        else
            ia_walk_expand(w, c->parent);
    }
}

/* Graph nodes that nothing but the holders keeps: few, and looked at once
 * for each group. */
typedef struct {
    uintptr_t *refs; /* owned */
    uint32_t count;
} loose_nodes;

static int
is_loose(const ia_walk *base, uintptr_t ref)
{
    return IA_TAG(ref) == IA_TAG_NODE &&
           !ia_bitmap_test(base->seen, IA_ADDRESS(ref));
}

static int
find_loose_nodes(const ia_walk *full, const ia_walk *base, loose_nodes *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; full->nodes > 0 && i < full->count; i++)
        n += is_loose(base, full->queue[i].ref);
    out->refs = calloc(n + 1, sizeof *out->refs);
    if (out->refs == NULL)
        return -1;
    for (uint32_t i = 0; n > 0 && i < full->count; i++)
        if (is_loose(base, full->queue[i].ref))
            out->refs[out->count++] = full->queue[i].ref;
    return 0;
}

static ia_node_cost *
cost_of_node(ia_node_cost *table, int *n, int room, uintptr_t ref)
{
    char name[64];
    ia_ref_type_name(ref, name, sizeof name);
    for (int i = 0; i < *n; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    if (*n == room)
        return NULL;
    table[*n] = (ia_node_cost){0};
    memcpy(table[*n].name, name, sizeof name);
    return &table[(*n)++];
}

/* The node that saved what was reached at `entry`: a tensor that Python knows
 * has an entry of its own below the node. */
static uint32_t
node_that_holds(const ia_walk *full, uint32_t entry)
{
    for (int up = 0; up < 2 && entry != IA_NO_ENTRY; up++) {
        if (IA_TAG(full->queue[entry].ref) == IA_TAG_NODE)
            return entry;
        entry = full->queue[entry].parent;
    }
    return IA_NO_ENTRY;
}

static int
by_weight(const void *a, const void *b)
{
    const ia_node_cost *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

/* Kinds of nodes that are told apart; a program has fewer. */
#define MAX_NODE_KINDS 256

static int
count_nodes(const ia_walk *full, const loose_nodes *loose,
            const ia_walk *again, const ia_marks *marks, uint32_t stamp,
            ia_cost *cost)
{
    ia_node_cost *table = calloc(MAX_NODE_KINDS, sizeof *table), *kind;
    int n = 0;
    if (table == NULL)
        return -1;
    for (uint32_t i = 0; i < loose->count; i++) {
        if (ia_bitmap_test(again->seen, IA_ADDRESS(loose->refs[i])))
            continue;
        cost->nodes++;
        cost->node_bytes += ia_the_framework->node_bytes(
            (void *)IA_ADDRESS(loose->refs[i]));
        kind = cost_of_node(table, &n, MAX_NODE_KINDS, loose->refs[i]);
        if (kind != NULL)
            kind->count++;
    }
    for (uint32_t i = 0; i < marks->limit; i++) {
        const ia_reached *r = &full->storages->items[i];
        uint32_t node = node_that_holds(full, r->entry);
        if (marks->of_storage[i] == IA_MARK_KEPT ||
            marks->of_storage[i] == stamp || node == IA_NO_ENTRY)
            continue;
        cost->saved++;
        cost->saved_bytes += r->bytes;
        kind = cost_of_node(table, &n, MAX_NODE_KINDS,
                            full->queue[node].ref);
        if (kind != NULL)
            kind->bytes += r->bytes;
    }
    qsort(table, (size_t)n, sizeof *table, by_weight);
    cost->nbiggest = n < IA_BIGGEST_NODES ? n : IA_BIGGEST_NODES;
    memcpy(cost->biggest, table, (size_t)cost->nbiggest * sizeof *table);
    free(table);
    return 0;
}

static void
count_storages(const ia_walk *full, ia_marks *marks, uint32_t stamp,
               ia_cost *cost)
{
    for (uint32_t i = 0; i < marks->limit; i++) {
        const ia_reached *r = &full->storages->items[i];
        uint32_t mark = marks->of_storage[i];
        if (mark == IA_MARK_KEPT || mark == stamp || r->claimed ||
            r->entry == IA_NO_ENTRY)
            continue;
        full->storages->items[i].claimed = 1;
        cost->bytes += r->bytes;
        cost->storages++;
    }
}

static int
measure_group(const ia_walk *full, const ia_walk *base,
              const loose_nodes *loose, const ia_cut *cuts, uint32_t count,
              uint32_t group, ia_marks *marks, ia_cost *cost)
{
    ia_walk again = {0};
    int result = -1;
    uint32_t n = 0;
    ia_cut *own = calloc(count, sizeof *own);
    if (own == NULL || ia_walk_init(&again, full->storages, full->roots) < 0)
        goto done;
    for (uint32_t i = 0; i < count; i++)
        if (cuts[i].group == group)
            own[n++] = cuts[i];
    if (ia_walk_set_cuts(&again, own, n) < 0)
        goto done;
    again.graph = full->graph;
    again.below = base->seen;
    marks->stamp = group + 1;
    again.marks = marks;
    undo_others(&again, cuts, count, group, base);
    ia_walk_run(&again);
    if (again.failed || count_nodes(full, loose, &again, marks, group + 1,
                                    cost) < 0)
        goto done;
    count_storages(full, marks, group + 1, cost);
    result = 0;
done:
    ia_walk_free(&again);
    free(own);
    return result;
}

int
ia_cuts_measure(const ia_walk *full, ia_cut *cuts, uint32_t count,
                uint32_t groups, ia_cost *costs)
{
    ia_walk base = {0};
    loose_nodes loose = {0};
    int result = -1;
    uint32_t limit = full->storages->count;
    ia_marks marks = {
        .of_storage = calloc(limit + 1, sizeof(uint32_t)),
        .limit = limit,
        .stamp = IA_MARK_KEPT,
    };
    memset(costs, 0, groups * sizeof *costs);
    if (marks.of_storage == NULL)
        goto done;
    ia_cuts_order(cuts, count);
    if (keep_what_stays(&base, full, cuts, count, &marks) < 0 ||
        find_loose_nodes(full, &base, &loose) < 0)
        goto done;
    for (uint32_t g = 0; g < groups; g++)
        if (measure_group(full, &base, &loose, cuts, count, g, &marks,
                          &costs[g]) < 0)
            goto done;
    result = 0;
done:
    ia_walk_free(&base);
    free(loose.refs);
    free(marks.of_storage);
    return result;
}
