/* What is freed only when several references are cut at once.
 *
 * `self.state = cell(x, self.state)` beside a deque of the last states: the
 * graph that reaches ever further back hangs on each of them, and cutting one
 * path frees nothing.  What they keep together is what the leak costs.
 *
 * `losses[y].append(loss)` for each loss of a batch: the batch's graph hangs on
 * several lists of one dict, which are told as one.  What emptying all of them
 * frees is counted for the first.
 */

#include "../base/ptrmap.h"
#include "parting.h"
#include "shared.h"

#include <stdlib.h>
#include <string.h>

#define ALONE UINT32_MAX

typedef struct {
    ia_cut *cuts; /* owned */
    uint32_t ncuts, capacity;
    uint32_t *set; /* owned; by holder: its set of cuts, or ALONE */
    uint32_t count;
    uint32_t together; /* the first of them are of holders that go together */
    ia_ptrmap of_site; /* site + 1 -> set of cuts of a single holder */
    ia_ptrmap of_sort; /* site, and container of containers -> the same */
    ia_ptrmap emptied; /* container, and set: there is such a cut */
    int sorts;
} sharing;

static int
frees_nothing(const ia_holder *k, const ia_cost *cost)
{
    return k->parts >= 2 && cost->storages == 0 && cost->nodes == 0;
}

/* The container that a holder is an item of, or IA_NO_ENTRY. */
static uint32_t
container_of(const ia_walk *w, uint32_t entry)
{
    uint32_t up = w->queue[entry].parent;
    return up != IA_NO_ENTRY && ia_entry_is_container(w, entry) &&
                   ia_entry_is_container(w, up)
               ? up
               : IA_NO_ENTRY;
}

/* One of several lists: what others of them have, too, is not freed. */
static int
frees_a_part(const ia_walk *w, const ia_holder *k, const ia_cost *cost)
{
    return w->graph && k->parts >= 2 && cost->storages < k->count &&
           container_of(w, k->entry) != IA_NO_ENTRY;
}

static uintptr_t
key_of(uint32_t one, uint32_t other)
{
    return ((uintptr_t)one << 32 | other) + 1;
}

/* All alone, so far. */
static int
begin_sets(sharing *s, const ia_holders *holders)
{
    s->set = calloc((size_t)holders->count + 1, sizeof *s->set);
    if (s->set == NULL)
        return -1;
    for (uint32_t i = 0; i < holders->count; i++)
        s->set[i] = ALONE;
    return 0;
}

static int
list_holders_cuts(sharing *s, const ia_holders *holders)
{
    for (uint32_t i = 0; i < holders->ncuts; i++) {
        ia_cut cut = holders->cuts[i];
        cut.group = s->set[cut.group];
        if (cut.group != ALONE &&
            ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut) < 0)
            return -1;
    }
    return 0;
}

/* -- what a call that is just running holds, too ------------------------------ */

static int
is_value(const ia_walk *w, const ia_holder *k)
{
    return ia_is_value(w->queue[k->entry].ref);
}

/* The holders' own cuts, and the tensors themselves taken as empty. */
static int
list_values(const ia_walk *w, const ia_holders *holders, const ia_cost *costs,
            sharing *s)
{
    if (begin_sets(s, holders) < 0)
        return -1;
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_holder *k = &holders->items[i];
        if (!frees_nothing(k, &costs[i]) || !is_value(w, k) ||
            s->count == IA_MAX_CUT_GROUPS)
            continue;
        ia_cut cut = {w->queue[k->entry].ref, 0, s->count, k->entry};
        if (ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut) < 0)
            return -1;
        s->set[i] = s->count++;
    }
    return list_holders_cuts(s, holders);
}

/* `state = advance(state)`: while the call runs its argument is one more
 * reference to the very tensor.  What that tensor keeps is the holder's. */
static int
measure_values(const ia_walk *w, const ia_holders *holders, ia_cost *costs)
{
    sharing s = {0};
    ia_cost *found = NULL;
    int result = list_values(w, holders, costs, &s);
    if (result == 0 && s.count > 0) {
        found = calloc(s.count, sizeof *found);
        result = found == NULL ||
                         ia_cuts_measure(w, s.cuts, s.ncuts, s.count, found,
                                         NULL, NULL) < 0
                     ? -1
                     : 0;
    }
    uint32_t count = result == 0 && found != NULL ? holders->count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (s.set[i] != ALONE)
            costs[i] = found[s.set[i]];
    free(found);
    free(s.set);
    free(s.cuts);
    return result;
}

/* -- what other holders hold, too ---------------------------------------------- */

/* 1, or -1 when memory is short. */
static int
list_sites(sharing *s, const ia_groups *groups, const ia_holder *k)
{
    for (uint32_t n = k->first; n < k->first + k->ngroups; n++) {
        uintptr_t key = (uintptr_t)groups->items[n].site + 1;
        if (ia_ptrmap_get(&s->of_site, key) == IA_PTRMAP_NONE &&
            ia_ptrmap_set(&s->of_site, key, s->count) < 0)
            return -1;
    }
    return 1;
}

/* Of a holder among others of its sort: 0 where the first of them has begun
 * their set, which empties this one as well. */
static int
list_sorts(const ia_walk *w, sharing *s, const ia_groups *groups,
           const ia_holder *k)
{
    uint32_t up = container_of(w, k->entry);
    int begins = 0;
    for (uint32_t n = k->first; n < k->first + k->ngroups; n++) {
        uintptr_t key = key_of(groups->items[n].site, up);
        if (ia_ptrmap_get(&s->of_sort, key) != IA_PTRMAP_NONE)
            continue;
        if (ia_ptrmap_set(&s->of_sort, key, s->count) < 0)
            return -1;
        s->sorts = begins = 1;
    }
    return begins;
}

/* Holders that go together are one set, begun by the first of them. */
static int
list_sets(const ia_walk *w, sharing *s, const ia_groups *groups,
          const ia_holders *holders, const ia_cost *costs,
          const uint32_t *together)
{
    if (begin_sets(s, holders) < 0)
        return -1;
    for (uint32_t i = 0; i < holders->count; i++) {
        uint32_t first = together[i];
        if (first != i && s->set[first] == ALONE)
            s->set[first] = s->count++;
        if (first != i)
            s->set[i] = s->set[first];
    }
    s->together = s->count;
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_holder *k = &holders->items[i];
        int nothing = frees_nothing(k, &costs[i]);
        if (s->set[i] != ALONE || s->count == IA_MAX_CUT_GROUPS ||
            !(nothing || frees_a_part(w, k, &costs[i])))
            continue;
        int begins = container_of(w, k->entry) == IA_NO_ENTRY
                         ? list_sites(s, groups, k)
                         : list_sorts(w, s, groups, k);
        if (begins < 0)
            return -1;
        if (!begins)
            continue;
        s->set[i] = s->count++;
    }
    return 0;
}

static int
list_cuts(const ia_walk *w, sharing *s, const ia_holders *holders)
{
    if (list_holders_cuts(s, holders) < 0)
        return -1;
    for (uint32_t i = 0; i < w->storages->count; i++) {
        const ia_reached *r = &w->storages->items[i];
        uint32_t g = ia_ptrmap_get(&s->of_site, (uintptr_t)r->site + 1);
        if (r->entry == IA_NO_ENTRY || g == IA_PTRMAP_NONE)
            continue;
        ia_cut cut = {w->queue[r->entry].ref, 0, g, r->entry};
        if (ia_is_value(cut.parent) &&
            ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut) < 0)
            return -1;
    }
    return 0;
}

/* From a tensor up to the list in a dict that has it. */
#define MOST_HOPS 4

/* Empties the container of a sort that an entry lies in. */
static int
empty_container(const ia_walk *w, sharing *s, uint32_t site, uint32_t entry)
{
    uint32_t up = w->queue[entry].parent;
    for (int hop = 0; hop < MOST_HOPS && up != IA_NO_ENTRY; hop++) {
        uint32_t above = w->queue[up].parent;
        uint32_t g = above == IA_NO_ENTRY
                         ? IA_PTRMAP_NONE
                         : ia_ptrmap_get(&s->of_sort, key_of(site, above));
        if (g != IA_PTRMAP_NONE) {
            uintptr_t key = key_of(g, up);
            ia_cut cut = {w->queue[up].ref, 0, g, up};
            if (ia_ptrmap_get(&s->emptied, key) != IA_PTRMAP_NONE)
                return 0;
            return ia_ptrmap_set(&s->emptied, key, 0) < 0
                       ? -1
                       : ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut);
        }
        up = above;
    }
    return 0;
}

/* Views of one memory may lie in any of them. */
static int
list_emptied(const ia_walk *w, sharing *s)
{
    const ia_storages *all = w->storages;
    for (uint32_t i = 0; s->sorts && i < all->count; i++) {
        const ia_reached *r = &all->items[i];
        if (r->entry == IA_NO_ENTRY)
            continue;
        if (empty_container(w, s, r->site, r->entry) < 0)
            return -1;
        for (uint32_t at = r->beside; at != 0; at = all->beside[at].next)
            if (empty_container(w, s, r->site, all->beside[at].entry) < 0)
                return -1;
    }
    return 0;
}

/* Does it free much more than the holder does alone?  A holder that frees some
 * has that told where it is most of it. */
static int
frees_more(const ia_cost *all, const ia_cost *own, int goes_together)
{
    if (goes_together || (own->storages == 0 && own->nodes == 0))
        return all->storages > 0 || all->nodes > 0;
    return all->bytes + all->node_bytes > 2 * (own->bytes + own->node_bytes);
}

/* What each of a set has alone was counted by then, once. */
static void
tell(const sharing *s, uint32_t holders, ia_cost *found, ia_cost *costs,
     uint8_t *shared)
{
    for (uint32_t i = 0; i < holders; i++) {
        if (s->set[i] == ALONE)
            continue;
        found[s->set[i]].bytes += costs[i].bytes;
        found[s->set[i]].storages += costs[i].storages;
    }
    for (uint32_t i = 0; i < holders; i++) {
        const ia_cost *all = &found[s->set[i] == ALONE ? 0 : s->set[i]];
        int goes_together = s->set[i] < s->together;
        if (s->set[i] == ALONE || !frees_more(all, &costs[i], goes_together))
            continue;
        costs[i] = *all;
        shared[i] = 1;
    }
}

int
ia_shared_measure(const ia_walk *w, const ia_groups *groups,
                  const ia_holders *holders, ia_cost *costs, uint8_t *shared,
                  const uint32_t *together)
{
    sharing s = {0};
    ia_cost *found = NULL;
    int result = -1;
    if (measure_values(w, holders, costs) < 0 ||
        list_sets(w, &s, groups, holders, costs, together) < 0)
        goto done;
    if (s.count == 0) {
        result = 0;
        goto done;
    }
    found = calloc(s.count, sizeof *found);
    if (found == NULL || list_cuts(w, &s, holders) < 0 ||
        list_emptied(w, &s) < 0 ||
        ia_cuts_measure(w, s.cuts, s.ncuts, s.count, found, NULL, NULL) < 0)
        goto done;
    tell(&s, holders->count, found, costs, shared);
    result = 0;
done:
    ia_ptrmap_free(&s.of_site);
    ia_ptrmap_free(&s.of_sort);
    ia_ptrmap_free(&s.emptied);
    free(found);
    free(s.set);
    free(s.cuts);
    return result;
}
