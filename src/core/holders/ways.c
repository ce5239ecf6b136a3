/* What the objects on the ways from the roots to the holders retain.
 *
 * What an object retains is what a walk with it emptied leaves unreached.  One
 * walk with all of them emptied, and the holders, is the beginning of the one
 * that the holders' cuts take anyway.  From there on:
 *
 * Where one of them alone was reached, all others lie behind it: what is
 * unreached is what it retains.  It is let in, and the others are measured in
 * the same way: one path takes no more than one walk over what lies on it.
 * Where several were reached, they are halved: what one half holds is let in,
 * the other half is measured, and then all that was let in is forgotten again.
 */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../heap/roots.h"
#include "parting.h"
#include "ways.h"

#include <stdlib.h>
#include <string.h>

/* -- which ----------------------------------------------------------------- */

/* The place of an object; where it is none, the number of those that are. */
static uint32_t
place_of(const ia_ways *ways, uint32_t entry)
{
    uint32_t i = 0;
    while (i < ways->count && ways->items[i].entry != entry)
        i++;
    return i;
}

static void
add(ia_ways *ways, uint32_t entry, uint32_t group)
{
    uint32_t at = place_of(ways, entry);
    if (at == IA_MOST_ON_WAYS)
        return;
    if (at == ways->count)
        ways->items[ways->count++] = (ia_waypoint){.entry = entry};
    ways->items[at].groups |= UINT64_C(1) << group;
}

/* Those of one way stand side by side, the outermost first. */
void
ia_ways_add(ia_ways *ways, const ia_walk *w, uint32_t nearest, uint32_t group)
{
    uint32_t way[IA_MOST_ON_ONE_WAY], met = 0, at = nearest;
    for (; at != IA_NO_ENTRY && met < IA_MOST_ON_ONE_WAY;
         at = w->queue[at].parent)
        if (w->queue[at].parent != IA_NO_ENTRY &&
            !ia_is_instance_dict(w, at))
            way[met++] = at;
    while (met > 0)
        add(ways, way[--met], group);
}

const ia_waypoint *
ia_ways_at(const ia_ways *ways, uint32_t entry, uint32_t group)
{
    uint32_t at = place_of(ways, entry);
    const ia_waypoint *point = &ways->items[at];
    return at < ways->count && point->measured && point->groups >> group & 1
               ? point
               : NULL;
}

/* -- how much -------------------------------------------------------------- */

typedef struct {
    uintptr_t address;
    uint64_t bytes;
} node;

typedef struct {
    ia_ways *ways;
    const ia_walk *full;
    ia_walk *base;      /* as it was after each pass of ours */
    const ia_cut *cuts; /* borrowed; the holders' */
    uint32_t count;
    ia_cut *made; /* owned; the cuts of the pass under way */
    node *nodes;  /* owned; of graphs, that all cuts together leave unreached */
    uint32_t nnodes;
    uint64_t left; /* objects that may still be looked at */
} measuring;

static uintptr_t
ref_of(const measuring *m, uint32_t point)
{
    return m->full->queue[m->ways->items[point].entry].ref;
}

static uint64_t
groups_of(const measuring *m, uint32_t first, uint32_t end)
{
    uint64_t groups = 0;
    for (uint32_t i = first; i < end; i++)
        groups |= m->ways->items[i].groups;
    return groups;
}

/* A variable that names a container's newest item is cut off with whatever is
 * on the container's way.  An object that is asked about is cut off whole,
 * and there may be more of them than a set of groups has bits. */
static int
is_name(const measuring *m, const ia_cut *c)
{
    if (c->child == 0)
        return 0;
    uintptr_t holder = m->full->queue[c->entry].ref;
    return c->parent != holder && c->child != holder;
}

/* Empties these of the objects; with `all` also what is cut at the holders. */
static int
make_cuts(measuring *m, uint32_t first, uint32_t end, int all)
{
    uint64_t groups = groups_of(m, first, end);
    uint32_t n = 0;
    for (uint32_t i = first; i < end; i++)
        m->made[n++] = (ia_cut){.parent = ref_of(m, i)};
    for (uint32_t i = 0; i < m->count; i++)
        if (all || (is_name(m, &m->cuts[i]) &&
                    groups >> m->cuts[i].group & 1))
            m->made[n++] = m->cuts[i];
    for (uint32_t i = 0; i < m->ways->naside; i++)
        m->made[n++] = m->ways->aside[i];
    ia_cuts_order(m->made, n);
    ia_ptrmap_free(&m->base->cut_of);
    return ia_walk_set_cuts(m->base, m->made, n);
}

/* Looks once more into what was reached and cut; the cuts that are made now
 * say what of it is let in. */
static void
look_again(const measuring *m, uintptr_t ref)
{
    if (ref != 0 && ia_bitmap_test(m->base->seen, IA_ADDRESS(ref)))
        ia_walk_append(m->base, ref, IA_NO_ENTRY);
}

/* At what the holders' cuts of these groups are made at. */
static void
look_again_at_cuts(const measuring *m, uint64_t groups, int names)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const ia_cut *c = &m->cuts[i];
        int known = i > 0 && m->cuts[i - 1].parent == c->parent;
        if ((names ? is_name(m, c) && groups >> c->group & 1 : !known))
            look_again(m, c->parent);
    }
}

static void
let_in_roots(const measuring *m)
{
    for (uint32_t i = 0; i < m->count && m->cuts[i].parent == 0; i++)
        ia_walk_follow(m->base, m->cuts[i].child, 0);
}

/* In the order of the queue, which is kept: it says what to forget again. */
static void
run(measuring *m)
{
    ia_walk *w = m->base;
    for (; w->head < w->count && !w->failed && m->left > 0; m->left--)
        ia_walk_step(w);
    w->parent = IA_NO_ENTRY;
    w->first_cut = IA_PTRMAP_NONE;
}

static int
goes_on(const measuring *m)
{
    return !m->base->failed && m->left > 0;
}

/* Of `first` to `end` all are let in but for `kept` to `kept_end`. */
static int
let_in(measuring *m, uint32_t first, uint32_t end, uint32_t kept,
       uint32_t kept_end)
{
    uint64_t groups =
        groups_of(m, first, end) & ~groups_of(m, kept, kept_end);
    if (make_cuts(m, kept, kept_end, 0) < 0)
        return -1;
    for (uint32_t i = first; i < end; i++)
        if (i < kept || i >= kept_end)
            look_again(m, ref_of(m, i));
    look_again_at_cuts(m, groups, 1);
    run(m);
    return 0;
}

static void
read_point(const measuring *m, uint32_t at)
{
    const ia_marks *marks = m->base->marks;
    ia_waypoint *point = &m->ways->items[at];
    point->measured = 1;
    for (uint32_t i = 0; i < marks->limit; i++) {
        const ia_reached *r = &m->full->storages->items[i];
        if (marks->of_storage[i] == 0 && r->entry != IA_NO_ENTRY)
            point->bytes += r->bytes;
    }
    for (uint32_t i = 0; i < m->nnodes; i++)
        if (!ia_bitmap_test(m->base->seen, m->nodes[i].address))
            point->node_bytes += m->nodes[i].bytes;
}

typedef struct {
    uint32_t *own;    /* owned; marks of storages */
    uint32_t *around; /* those of the pass around it */
    uint32_t from;    /* entries of the queue before it */
} pass;

static int
begin_pass(const measuring *m, pass *p)
{
    ia_marks *marks = m->base->marks;
    size_t size = marks->limit * sizeof *marks->of_storage;
    p->own = malloc(size + 1);
    if (p->own == NULL)
        return -1;
    memcpy(p->own, marks->of_storage, size);
    p->around = marks->of_storage;
    p->from = m->base->count;
    marks->of_storage = p->own;
    return 0;
}

/* Entries without a parent were known before: they were looked at again. */
static void
end_pass(const measuring *m, const pass *p)
{
    ia_walk *w = m->base;
    w->marks->of_storage = p->around;
    free(p->own);
    for (uint32_t i = p->from; i < w->count; i++)
        if (w->queue[i].parent != IA_NO_ENTRY)
            ia_bitmap_unmark(w->seen, IA_ADDRESS(w->queue[i].ref));
    w->head = w->count = p->from;
}

static int
has_names(const measuring *m, uint64_t groups)
{
    for (uint32_t i = 0; groups != 0 && i < m->count; i++)
        if (is_name(m, &m->cuts[i]) && groups >> m->cuts[i].group & 1)
            return 1;
    return 0;
}

static int
was_reached(const measuring *m, uint32_t point)
{
    return ia_bitmap_test(m->base->seen, IA_ADDRESS(ref_of(m, point)));
}

/* The one that was reached, with all of them emptied, where it is the only
 * one, and the names that are cut are those of its holders; else `end`. */
static uint32_t
only_one_reached(const measuring *m, uint32_t first, uint32_t end)
{
    uint32_t found = end;
    for (uint32_t i = first; i < end; i++) {
        if (!was_reached(m, i))
            continue;
        if (found != end)
            return end;
        found = i;
    }
    if (found == end)
        return end;
    uint64_t others = ~m->ways->items[found].groups;
    return has_names(m, groups_of(m, first, end) & others) ? end : found;
}

/* Entries from an object up to the one of them that was reached. */
#define MAX_HOPS (2 * IA_MOST_ON_ONE_WAY)

/* The nearest one on the way to an object that was reached, else it itself. */
static uint32_t
reached_above(const measuring *m, uint32_t point, uint32_t first,
              uint32_t end)
{
    uint32_t at = m->ways->items[point].entry;
    for (int hop = 0; hop < MAX_HOPS && at != IA_NO_ENTRY; hop++) {
        uint32_t found = place_of(m->ways, at);
        if (found >= first && found < end && was_reached(m, found))
            return found;
        at = m->full->queue[at].parent;
    }
    return point;
}

/* Puts side by side what lies behind one that was reached, for that is let in
 * together; where the second half begins. */
static uint32_t
halve(const measuring *m, uint32_t first, uint32_t end)
{
    ia_waypoint sorted[IA_MOST_ON_WAYS];
    uint32_t above[IA_MOST_ON_WAYS], start[IA_MOST_ON_WAYS];
    uint32_t n = 0, starts = 0;
    for (uint32_t i = first; i < end; i++)
        above[i] = reached_above(m, i, first, end);
    for (uint32_t top = first; top < end; top++) {
        if (above[top] != top)
            continue;
        start[starts++] = first + n;
        for (uint32_t i = first; i < end; i++)
            if (above[i] == top)
                sorted[n++] = m->ways->items[i];
    }
    memcpy(m->ways->items + first, sorted, n * sizeof *sorted);
    return starts > 1 ? start[starts / 2] : first + n / 2;
}

static void
move_to(const measuring *m, uint32_t at, uint32_t first)
{
    ia_waypoint moved = m->ways->items[at];
    for (; at > first; at--)
        m->ways->items[at] = m->ways->items[at - 1];
    m->ways->items[first] = moved;
}

static int measure(measuring *m, uint32_t first, uint32_t end);

static int
measure_half(measuring *m, uint32_t first, uint32_t end, uint32_t kept,
             uint32_t kept_end)
{
    pass p;
    if (!goes_on(m))
        return 0;
    if (begin_pass(m, &p) < 0)
        return -1;
    int result = let_in(m, first, end, kept, kept_end);
    if (result == 0 && goes_on(m))
        result = measure(m, kept, kept_end);
    end_pass(m, &p);
    return result;
}

static int
measure_halves(measuring *m, uint32_t first, uint32_t end, uint32_t middle)
{
    return measure_half(m, first, end, first, middle) < 0
               ? -1
               : measure_half(m, first, end, middle, end);
}

/* Those from `first` to `end`, which are emptied in the pass under way. */
static int
measure(measuring *m, uint32_t first, uint32_t end)
{
    for (; end - first > 1; first++) {
        uint32_t at = only_one_reached(m, first, end);
        if (at == end)
            return measure_halves(m, first, end, halve(m, first, end));
        move_to(m, at, first);
        read_point(m, first);
        if (let_in(m, first, end, first + 1, end) < 0)
            return -1;
        if (!goes_on(m))
            return 0;
    }
    read_point(m, first);
    return 0;
}

/* The holders let in, all objects on their ways emptied. */
static int
measure_all(measuring *m)
{
    uint32_t count = m->ways->count;
    pass p;
    if (begin_pass(m, &p) < 0)
        return -1;
    int result = make_cuts(m, 0, count, 0);
    look_again_at_cuts(m, 0, 0);
    let_in_roots(m);
    run(m);
    if (result == 0 && goes_on(m))
        result = measure(m, 0, count);
    end_pass(m, &p);
    return result;
}

static int
list_nodes(measuring *m)
{
    const ia_walk *full = m->full;
    m->nodes = calloc((size_t)full->nodes + 1, sizeof *m->nodes);
    if (m->nodes == NULL)
        return -1;
    for (uint32_t i = 0; i < full->count && m->nnodes < full->nodes; i++) {
        uintptr_t ref = full->queue[i].ref;
        if (IA_TAG(ref) != IA_TAG_NODE ||
            ia_bitmap_test(m->base->seen, IA_ADDRESS(ref)))
            continue;
        m->nodes[m->nnodes++] =
            (node){IA_ADDRESS(ref),
                   ia_the_framework->node_bytes((void *)IA_ADDRESS(ref))};
    }
    return 0;
}

/* Goes on with the cuts of the holders alone. */
static int
let_in_ways(const measuring *m)
{
    ia_walk *w = m->base;
    ia_ptrmap_free(&w->cut_of);
    if (ia_walk_set_cuts(w, m->cuts, m->count) < 0)
        return -1;
    for (uint32_t i = 0; i < m->ways->count; i++)
        look_again(m, ref_of(m, i));
    for (uint32_t i = 0; i < m->ways->naside; i++)
        look_again(m, m->ways->aside[i].parent);
    ia_walk_run(w);
    return w->failed ? -1 : 0;
}

int
ia_ways_walk(ia_ways *ways, const ia_walk *full, ia_walk *base,
             const ia_cut *cuts, uint32_t count)
{
    measuring m = {.ways = ways, .full = full, .base = base, .cuts = cuts,
                   .count = count};
    int result = -1;
    m.left = IA_WALKS_FOR_WAYS * (uint64_t)full->count;
    m.made = calloc((size_t)count + ways->count + ways->naside + 1,
                    sizeof *m.made);
    if (m.made == NULL || make_cuts(&m, 0, ways->count, 1) < 0)
        goto done;
    ia_walk_again(base, full);
    if (base->failed || list_nodes(&m) < 0 || measure_all(&m) < 0)
        goto done;
    result = let_in_ways(&m);
done:
    free(m.nodes);
    free(m.made);
    return result;
}
