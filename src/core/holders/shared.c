/* What is freed only when several references are cut at once.
 *
 * `self.state = cell(x, self.state)` beside a deque of the last states: the
 * graph that reaches ever further back hangs on each of them, and cutting one
 * path frees nothing.  What they keep together is what the leak costs.
 */

#include "../base/ptrmap.h"
#include "shared.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ia_cut *cuts; /* owned */
    uint32_t ncuts, capacity;
    uint32_t *holder; /* owned; of each set of cuts */
    uint32_t count;
    ia_ptrmap of_site; /* site + 1 -> set of cuts */
} sharing;

static int
frees_nothing(const ia_holder *k, const ia_cost *cost)
{
    return k->parts >= 2 && cost->storages == 0 && cost->nodes == 0;
}

static int
list_holders(sharing *s, const ia_groups *groups, const ia_holders *holders,
             const ia_cost *costs)
{
    s->holder = calloc(holders->count + 1, sizeof *s->holder);
    if (s->holder == NULL)
        return -1;
    for (uint32_t i = 0; i < holders->count; i++) {
        const ia_holder *k = &holders->items[i];
        if (!frees_nothing(k, &costs[i]) || s->count == IA_MAX_CUT_GROUPS)
            continue;
        for (uint32_t n = k->first; n < k->first + k->ngroups; n++) {
            uintptr_t key = (uintptr_t)groups->items[n].site + 1;
            if (ia_ptrmap_get(&s->of_site, key) == IA_PTRMAP_NONE &&
                ia_ptrmap_set(&s->of_site, key, s->count) < 0)
                return -1;
        }
        s->holder[s->count++] = i;
    }
    return 0;
}

static int
list_cuts(const ia_walk *w, sharing *s, const ia_holders *holders)
{
    for (uint32_t g = 0; g < s->count; g++)
        for (uint32_t i = 0; i < holders->ncuts; i++) {
            ia_cut cut = holders->cuts[i];
            if (cut.group != s->holder[g])
                continue;
            cut.group = g;
            if (ia_cut_add(&s->cuts, &s->capacity, &s->ncuts, cut) < 0)
                return -1;
        }
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

int
ia_shared_measure(const ia_walk *w, const ia_groups *groups,
                  const ia_holders *holders, ia_cost *costs, uint8_t *shared)
{
    sharing s = {0};
    ia_cost *found = NULL;
    int result = -1;
    if (list_holders(&s, groups, holders, costs) < 0)
        goto done;
    if (s.count == 0) {
        result = 0;
        goto done;
    }
    found = calloc(s.count, sizeof *found);
    if (found == NULL || list_cuts(w, &s, holders) < 0 ||
        ia_cuts_measure(w, s.cuts, s.ncuts, s.count, found) < 0)
        goto done;
    for (uint32_t g = 0; g < s.count; g++) {
        if (found[g].storages == 0 && found[g].nodes == 0)
            continue;
        costs[s.holder[g]] = found[g];
        shared[s.holder[g]] = 1;
    }
    result = 0;
done:
    ia_ptrmap_free(&s.of_site);
    free(found);
    free(s.holder);
    free(s.cuts);
    return result;
}
