/* What would be freed if references were cut.
 *
 * One walk with all cuts made leaves unreached only what the holders retain.
 * That rest is walked from each group's cuts in turn: what one group alone
 * reaches would be freed by it, and nothing is walked more than twice.  A group
 * whose holder lies in the rest itself, below another's, is rare: for it the
 * rest is walked from all the other groups, and what stays unreached is its.
 */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/read.h"
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
                uint32_t count, ia_marks *marks, ia_ways *ways)
{
    if (ia_walk_init(base, full->storages, full->roots) < 0)
        return -1;
    base->graph = full->graph;
    base->marks = marks;
    if (only_proper_roots(full, cuts, count, marks))
        base->rooted_roots = full->rooted_roots;
    if (ways != NULL && ways->count > 0)
        return ia_ways_walk(ways, full, base, cuts, count);
    if (ia_walk_set_cuts(base, cuts, count) < 0)
        return -1;
    ia_walk_again(base, full);
    return base->failed ? -1 : 0;
}

/* Makes up for one cut whose parent stays reachable. */
static void
undo(ia_walk *w, const ia_cut *c, const ia_walk *base)
{
    if (c->parent != 0 &&
        !ia_bitmap_test(base->seen, IA_ADDRESS(c->parent)))
        return;
    if (c->child != 0)
        ia_walk_follow(w, c->child, IA_NO_ENTRY);
    else
        ia_walk_expand(w, c->parent);
}

/* Graph nodes that nothing but the holders keeps. */
typedef struct {
    uintptr_t *refs; /* owned */
    uint32_t count;
} loose_nodes;

/* Whose alone a loose node or a storage is: group + 1. */
typedef struct {
    uint32_t *of_node;    /* owned */
    uint32_t *of_storage; /* owned */
} owners;

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
        n += (uint32_t)is_loose(base, full->queue[i].ref);
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

/* The nodes that are this group's, by kind, and what they saved. */
static int
count_nodes(const ia_walk *full, const loose_nodes *loose, const owners *of,
            uint32_t group, uint32_t limit, ia_cost *cost)
{
    ia_node_cost *table = calloc(MAX_NODE_KINDS, sizeof *table), *kind;
    int n = 0;
    if (table == NULL)
        return -1;
    for (uint32_t i = 0; i < loose->count; i++) {
        if (of->of_node[i] != group + 1)
            continue;
        cost->nodes++;
        cost->node_bytes += ia_the_framework->node_bytes(
            (void *)IA_ADDRESS(loose->refs[i]));
        kind = cost_of_node(table, &n, MAX_NODE_KINDS, loose->refs[i]);
        if (kind != NULL)
            kind->count++;
    }
    for (uint32_t i = 0; i < limit; i++) {
        const ia_reached *r = &full->storages->items[i];
        uint32_t node = of->of_storage[i] == group + 1
                            ? node_that_holds(full, r->entry)
                            : IA_NO_ENTRY;
        if (node == IA_NO_ENTRY)
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

void
ia_cost_add_on(ia_cost *cost, uint16_t device, uint64_t bytes)
{
    int i = 0;
    while (i < cost->non && cost->on[i].device != device)
        i++;
    if (i == IA_MOST_COSTS)
        return;
    if (i == cost->non)
        cost->on[cost->non++].device = device;
    cost->on[i].bytes += bytes;
}

static void
count_storages(const ia_walk *full, const owners *of, uint32_t group,
               uint32_t limit, ia_cost *cost)
{
    for (uint32_t i = 0; i < limit; i++) {
        ia_reached *r = &full->storages->items[i];
        if (of->of_storage[i] != group + 1 || r->claimed ||
            r->entry == IA_NO_ENTRY)
            continue;
        r->claimed = 1;
        cost->bytes += r->bytes;
        cost->storages++;
        if (r->asked_for)
            ia_cost_add_on(cost, r->device, r->bytes);
    }
}

/* -- whose alone ----------------------------------------------------------- */

typedef struct {
    const ia_walk *full;
    ia_walk base; /* with all cuts made */
    ia_marks marks;
    const ia_cut *cuts; /* borrowed */
    uint32_t count;
    loose_nodes loose;
    owners parted; /* among the groups that are_outer */
    owners single; /* of one other group */
    uint32_t groups;
    uint32_t *tensor_at; /* owned; by loose node: group + 1 of the first tensor
                          * that leads to it */
    uint32_t *common;    /* owned, NULL where it is not asked: loose nodes that
                          * each two tensors lead to */
} measuring;

static int
owners_init(owners *of, uint32_t nodes, uint32_t storages)
{
    of->of_node = calloc((size_t)nodes + 1, sizeof *of->of_node);
    of->of_storage = calloc((size_t)storages + 1, sizeof *of->of_storage);
    return of->of_node != NULL && of->of_storage != NULL ? 0 : -1;
}

static int
common_init(measuring *m)
{
    size_t pairs = (size_t)m->groups * m->groups;
    m->tensor_at = calloc((size_t)m->loose.count + 1, sizeof *m->tensor_at);
    m->common = calloc(pairs + 1, sizeof *m->common);
    return m->tensor_at != NULL && m->common != NULL ? 0 : -1;
}

static void
owners_free(owners *of)
{
    free(of->of_node);
    free(of->of_storage);
}

/* Do all its cuts stay reachable, but for what they cut off? */
static int
is_outer(const measuring *m, uint32_t group)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->cuts[i].group == group && m->cuts[i].parent != 0 &&
            !ia_bitmap_test(m->base.seen, IA_ADDRESS(m->cuts[i].parent)))
            return 0;
    return 1;
}

/* From the cuts of one group, or of all others with this one's made. */
static int
walk_rest(const measuring *m, ia_walk *again, uint32_t group, int others,
          ia_marks *marks)
{
    again->graph = m->full->graph;
    again->below = m->base.seen;
    again->marks = marks;
    marks->stamp = group + 1;
    for (uint32_t i = 0; i < m->count; i++)
        if ((m->cuts[i].group != group) == others)
            undo(again, &m->cuts[i], &m->base);
    ia_walk_run(again);
    return again->failed ? -1 : 0;
}

/* Is the group's cut a reference to a tensor? */
static int
is_tensor(const measuring *m, uint32_t group)
{
    int found = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const ia_cut *c = &m->cuts[i];
        if (c->group != group)
            continue;
        if (c->child == 0 || IA_TAG(c->child) != IA_TAG_OBJECT ||
            ia_kind_of(Py_TYPE((PyObject *)c->child)) != IA_KIND_TENSOR)
            return 0;
        found = 1;
    }
    return found;
}

/* A tensor's walk has met these loose nodes: which of them another's had. */
static void
note_common(measuring *m, uint32_t group, const ia_walk *again)
{
    if (m->common == NULL || !is_tensor(m, group))
        return;
    for (uint32_t i = 0; i < m->loose.count; i++) {
        if (!ia_bitmap_test(again->seen, IA_ADDRESS(m->loose.refs[i])))
            continue;
        if (m->tensor_at[i] == 0)
            m->tensor_at[i] = group + 1;
        else
            m->common[(m->tensor_at[i] - 1) * m->groups + group]++;
    }
}

static uint32_t
first_of(const uint32_t *together, uint32_t group)
{
    while (together[group] != group)
        group = together[group];
    return group;
}

/* Two tensors that have more nodes in common than one of them has alone hang
 * on one graph; most graphs of a model have its parameters in common. */
static int
join(const measuring *m, uint32_t *together)
{
    uint32_t *alone = calloc((size_t)m->groups + 1, sizeof *alone);
    if (alone == NULL)
        return -1;
    for (uint32_t i = 0; i < m->loose.count; i++)
        if (m->parted.of_node[i] != 0)
            alone[m->parted.of_node[i] - 1]++;
    for (uint32_t a = 0; a < m->groups; a++)
        for (uint32_t b = a + 1; b < m->groups; b++) {
            uint32_t least = alone[a] < alone[b] ? alone[a] : alone[b];
            uint32_t x = first_of(together, a), y = first_of(together, b);
            if (m->common[a * m->groups + b] > least)
                together[x < y ? y : x] = x < y ? x : y;
        }
    for (uint32_t g = 0; g < m->groups; g++)
        together[g] = first_of(together, g);
    free(alone);
    return 0;
}

static void
note_nodes(measuring *m, uint32_t group, const ia_walk *again, ia_cost *costs)
{
    for (uint32_t i = 0; i < m->loose.count; i++) {
        uint32_t *of = &m->parted.of_node[i];
        if (!ia_bitmap_test(again->seen, IA_ADDRESS(m->loose.refs[i])))
            continue;
        if (*of == 0)
            *of = group + 1;
        else
            costs[*of - 1].contended = costs[group].contended = 1;
    }
}

static int
part_group(measuring *m, uint32_t group, ia_claims *claims, ia_marks *marks,
           ia_cost *costs)
{
    ia_walk again = {0};
    int result = -1;
    if (ia_walk_init(&again, m->full->storages, m->full->roots) < 0)
        goto done;
    again.claims = claims;
    if (walk_rest(m, &again, group, 0, marks) < 0)
        goto done;
    note_nodes(m, group, &again, costs);
    note_common(m, group, &again);
    result = 0;
done:
    ia_walk_free(&again);
    return result;
}

typedef struct {
    const ia_bitmap *stays, *shared;
    ia_cost *cost;
} item_counter;

static int
count_item(PyObject *op, void *arg)
{
    item_counter *c = arg;
    if (!ia_is_gc(op) && ia_kind_of(Py_TYPE(op)) == IA_KIND_PLAIN)
        return 0;
    c->cost->items++;
    c->cost->freed_items += !ia_bitmap_test(c->stays, (uintptr_t)op) &&
                            !ia_bitmap_test(c->shared, (uintptr_t)op);
    return 0;
}

/* A bounded list beside it may have some of a container's items, too.  A
 * cache's references are its links, several an item: not measured. */
static void
count_items(const measuring *m, const ia_claims *claims, uint32_t group,
            ia_cost *cost)
{
    item_counter counter = {m->base.seen, claims->shared, cost};
    for (uint32_t i = 0; i < m->count; i++) {
        const ia_cut *c = &m->cuts[i];
        PyObject *op = (PyObject *)c->parent;
        if (c->group == group && c->child == 0 && c->parent != 0 &&
            IA_TAG(c->parent) == IA_TAG_OBJECT && ia_can_traverse(op) &&
            !ia_base_named(Py_TYPE(op), "functools._lru_cache_wrapper"))
            Py_TYPE(op)->tp_traverse(op, count_item, &counter);
    }
}

/* Parts the rest among the groups whose holders are outside of it; what the
 * others reach from outside, by a name of theirs, is no one's alone either. */
static int
part(measuring *m, uint32_t groups, ia_cost *costs)
{
    ia_claims claims = {ia_bitmap_new(), ia_bitmap_new()};
    ia_marks marks = {m->parted.of_storage, m->marks.limit, 0};
    int result = claims.any == NULL || claims.shared == NULL ? -1 : 0;
    memcpy(m->parted.of_storage, m->marks.of_storage,
           m->marks.limit * sizeof(uint32_t));
    for (uint32_t g = 0; result == 0 && g < groups; g++)
        result = part_group(m, g, &claims, &marks, costs);
    for (uint32_t i = 0; result == 0 && i < m->loose.count; i++)
        if (ia_bitmap_test(claims.shared, IA_ADDRESS(m->loose.refs[i])))
            m->parted.of_node[i] = 0;
    for (uint32_t g = 0; result == 0 && g < groups; g++)
        count_items(m, &claims, g, &costs[g]);
    if (result == 0 && (claims.any->failed || claims.shared->failed))
        result = -1;
    ia_bitmap_free(claims.any);
    ia_bitmap_free(claims.shared);
    return result;
}

/* What no other group reaches. */
static int
part_alone(measuring *m, uint32_t group)
{
    ia_walk again = {0};
    int result = -1;
    uint32_t n = 0;
    ia_cut *own = calloc(m->count, sizeof *own);
    if (own == NULL ||
        ia_walk_init(&again, m->full->storages, m->full->roots) < 0)
        goto done;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->cuts[i].group == group)
            own[n++] = m->cuts[i];
    if (ia_walk_set_cuts(&again, own, n) < 0 ||
        walk_rest(m, &again, group, 1, &m->marks) < 0)
        goto done;
    for (uint32_t i = 0; i < m->loose.count; i++) {
        uintptr_t node = IA_ADDRESS(m->loose.refs[i]);
        m->single.of_node[i] =
            ia_bitmap_test(again.seen, node) ? 0 : group + 1;
    }
    for (uint32_t i = 0; i < m->marks.limit; i++) {
        uint32_t mark = m->marks.of_storage[i];
        m->single.of_storage[i] =
            mark == IA_MARK_KEPT || mark == group + 1 ? 0 : group + 1;
    }
    result = 0;
done:
    ia_walk_free(&again);
    free(own);
    return result;
}

static int
measure_group(measuring *m, uint32_t group, ia_cost *cost)
{
    int outer = is_outer(m, group);
    const owners *of = outer ? &m->parted : &m->single;
    if (!outer && part_alone(m, group) < 0)
        return -1;
    if (count_nodes(m->full, &m->loose, of, group, m->marks.limit, cost) < 0)
        return -1;
    count_storages(m->full, of, group, m->marks.limit, cost);
    return 0;
}

int
ia_cuts_measure(const ia_walk *full, ia_cut *cuts, uint32_t count,
                uint32_t groups, ia_cost *costs, uint32_t *together,
                ia_ways *ways)
{
    measuring m = {
        .full = full, .cuts = cuts, .count = count, .groups = groups};
    int result = -1;
    m.marks = (ia_marks){
        .of_storage = calloc(full->storages->count + 1, sizeof(uint32_t)),
        .limit = full->storages->count,
        .stamp = IA_MARK_KEPT,
    };
    memset(costs, 0, groups * sizeof *costs);
    for (uint32_t g = 0; together != NULL && g < groups; g++)
        together[g] = g;
    if (m.marks.of_storage == NULL)
        goto done;
    ia_cuts_order(cuts, count);
    if (keep_what_stays(&m.base, full, cuts, count, &m.marks, ways) < 0 ||
        find_loose_nodes(full, &m.base, &m.loose) < 0 ||
        owners_init(&m.parted, m.loose.count, m.marks.limit) < 0 ||
        owners_init(&m.single, m.loose.count, m.marks.limit) < 0 ||
        (together != NULL && common_init(&m) < 0) ||
        part(&m, groups, costs) < 0)
        goto done;
    for (uint32_t g = 0; g < groups; g++)
        if (measure_group(&m, g, &costs[g]) < 0)
            goto done;
    if (together != NULL && join(&m, together) < 0)
        goto done;
    result = 0;
done:
    ia_walk_free(&m.base);
    free(m.tensor_at);
    free(m.common);
    free(m.loose.refs);
    free(m.marks.of_storage);
    owners_free(&m.parted);
    owners_free(&m.single);
    return result;
}
