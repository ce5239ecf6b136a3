/* What is freed only when several references are cut at once.
 *
 * `self.state = cell(x, self.state)` beside a deque of the last states: the
 * graph that reaches ever further back hangs on each of them, and cutting one
 * path frees nothing.  What they keep together is what the leak costs.
 */

#include "../base/ptrmap.h"
#include "shared.h"
#include "cutting.h"

#include <stdlib.h>
#include <string.h>

#define ALONE UINT32_MAX

typedef struct {
    ia_cut *cuts; /* owned */
    uint32_t ncuts, capacity;
    uint32_t *set; /* owned; by holder: its set of cuts, or ALONE */
    uint32_t count;
    ia_ptrmap of_site; /* site + 1 -> set of cuts of a single holder */
    ia_ptrmap charged; /* site + 1 of what holders that are alike have */
} sharing;

static int
frees_nothing(const ia_holder *k, const ia_cost *cost)
{
    return k->parts >= 2 && cost->storages == 0 && cost->nodes == 0 &&
           !cost->with_alike;
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

static int
list_sites(ia_ptrmap *map, const ia_groups *groups, const ia_holder *k,
           uint32_t value)
{
    for (uint32_t n = k->first; n < k->first + k->ngroups; n++) {
        uintptr_t key = (uintptr_t)groups->items[n].site + 1;
        if (ia_ptrmap_get(map, key) == IA_PTRMAP_NONE &&
            ia_ptrmap_set(map, key, value) < 0)
            return -1;
    }
    return 0;
}

/* What is charged to holders that are alike is not to be charged to others:
 * what their lines made and these free. */
static int
list_charged(sharing *s, const ia_groups *groups, const ia_holders *holders,
             const ia_cost *costs)
{
    for (uint32_t i = 0; i < holders->count; i++)
        if (costs[i].with_alike &&
            list_sites(&s->charged, groups, &holders->items[i], 0) < 0)
            return -1;
    return 0;
}

/* Holders that go together are one set, begun by the first of them. */
static int
list_sets(sharing *s, const ia_groups *groups, const ia_holders *holders,
          const ia_cost *costs, const uint32_t *together)
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
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_holder *k = &holders->items[i];
        if (s->set[i] != ALONE || !frees_nothing(k, &costs[i]) ||
            s->count == IA_MAX_CUT_GROUPS)
            continue;
        if (list_sites(&s->of_site, groups, k, s->count) < 0)
            return -1;
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
        uintptr_t site = (uintptr_t)r->site + 1;
        uint32_t g = ia_ptrmap_get(&s->of_site, site);
        if (r->entry == IA_NO_ENTRY || g == IA_PTRMAP_NONE ||
            (r->claimed &&
             ia_ptrmap_get(&s->charged, site) != IA_PTRMAP_NONE))
            continue;
        ia_cut cut = {w->queue[r->entry].ref, 0, g, r->entry};
        if (ia_is_value(cut.parent) &&
            ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut) < 0)
            return -1;
    }
    return 0;
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
        const ia_cost *cost = &found[s->set[i] == ALONE ? 0 : s->set[i]];
        if (s->set[i] == ALONE || (cost->storages == 0 && cost->nodes == 0))
            continue;
        costs[i] = *cost;
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
        list_charged(&s, groups, holders, costs) < 0 ||
        list_sets(&s, groups, holders, costs, together) < 0)
        goto done;
    if (s.count == 0) {
        result = 0;
        goto done;
    }
    found = calloc(s.count, sizeof *found);
    if (found == NULL || list_cuts(w, &s, holders) < 0 ||
        ia_cuts_measure(w, s.cuts, s.ncuts, s.count, found, NULL, NULL) < 0)
        goto done;
    tell(&s, holders->count, found, costs, shared);
    result = 0;
done:
    ia_ptrmap_free(&s.of_site);
    ia_ptrmap_free(&s.charged);
    free(found);
    free(s.set);
    free(s.cuts);
    return result;
}
