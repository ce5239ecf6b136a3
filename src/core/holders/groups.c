/* From storages that were reached to the objects that keep them. */

#include "../base/compat.h"
#include "../base/ptrmap.h"
#include "groups.h"
#include "parting.h"
#include "peers.h"

#include <stdlib.h>

/* A single storage has nothing to part from: the tensor stands for itself. */
static uint32_t
holder_of(const ia_walk *w, const ia_parting *s, const ia_member *member,
          ia_peers_memo *memo)
{
    uint32_t entry = w->storages->items[member->storage].entry;
    if (member->alone || s->weight[entry] < 2)
        return s->above[entry];
    uint32_t best = s->above[s->best[entry]];
    if (memo->entry != best) {
        memo->holder = ia_with_peers(w, best, memo);
        memo->entry = best;
    }
    return memo->holder;
}

/* A holder that stands beside the way has no part in it. */
static uint32_t
depth_below(const ia_parting *s, uint32_t entry, uint32_t holder)
{
    uint32_t above = s->depth[holder];
    return s->depth[entry] > above ? s->depth[entry] - above : 0;
}

static int
by_group(const void *a, const void *b)
{
    const ia_member *x = a, *y = b;
    if (x->holder != y->holder)
        return x->holder < y->holder ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static int
is_better_example(const ia_walk *w, const ia_group *g, const ia_reached *r,
                  uint32_t depth, int on_branch)
{
    if (on_branch != g->on_branch)
        return on_branch;
    if (depth != g->below)
        return depth < g->below;
    return r->bytes >= w->storages->items[g->example].bytes;
}

static void
add_member(const ia_walk *w, const ia_parting *s, const uint32_t *branch,
           ia_groups *out, const ia_member *m, const ia_member *last)
{
    const ia_reached *r = &w->storages->items[m->storage];
    ia_group *g = &out->items[out->count - 1];
    int first = g->count == 0 || last == NULL;
    if (first || m->generation != last->generation) {
        out->births[out->nbirths++] = m->generation;
        g->generations++;
    }
    if (first || m->part != last->part)
        g->parts++;
    if (g->count > 0 && g->purpose != r->purpose)
        g->purpose = IA_FOR_UNKNOWN;
    else
        g->purpose = r->purpose;
    if (g->count++ == 0)
        g->first_generation = m->generation;
    g->last_generation = m->generation;
    g->bytes += r->bytes;
    uint32_t depth = depth_below(s, r->entry, m->holder);
    if (g->count == 1 || depth < g->depth)
        g->depth = depth;
    int on_branch = branch[r->entry] == m->holder + 1;
    if (g->count == 1 || is_better_example(w, g, r, depth, on_branch)) {
        g->on_branch = on_branch;
        g->below = depth;
        g->example = m->storage;
    }
}

/* -- by which branch most of it hangs on a holder -------------------------- */

/* The branch that more than half of what hangs on a holder does, or 0: of a
 * chain's head the next link.  `largest` has the one of each entry with the
 * most, or 0, as no root is a branch. */
static uint32_t
branch_of(const ia_parting *s, const uint32_t *largest, uint32_t holder)
{
    uint32_t at = holder, all = s->count[holder];
    do
        at = largest[at];
    while (at != 0 && s->count[at] == all);
    return 2 * (uint64_t)s->count[at] > all ? at : 0;
}

/* A graph is no chain of the program's: the nearest of it tells most. */
static int
is_tensor(const ia_walk *w, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    return IA_TAG(ref) == IA_TAG_OBJECT &&
           ia_kind_of(Py_TYPE((PyObject *)ref)) == IA_KIND_TENSOR;
}

/* For each entry on the paths the holder + 1 on whose branch it is, or 0;
 * calloc'ed, NULL when memory is short. */
static uint32_t *
find_branches(const ia_walk *w, const ia_parting *s, const ia_member *members,
              uint32_t n)
{
    uint32_t *largest = calloc((size_t)w->count + 1, sizeof *largest);
    uint32_t *branch = calloc((size_t)w->count + 1, sizeof *branch);
    if (largest == NULL || branch == NULL) {
        free(largest);
        free(branch);
        return NULL;
    }
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at], up = w->queue[i].parent;
        if (up != IA_NO_ENTRY &&
            (largest[up] == 0 || s->count[i] > s->count[largest[up]]))
            largest[up] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t holder = members[i].holder;
        if ((i > 0 && holder == members[i - 1].holder) || is_tensor(w, holder))
            continue;
        uint32_t at = branch_of(s, largest, holder);
        if (at != 0)
            branch[at] = holder + 1;
    }
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at], up = w->queue[i].parent;
        if (branch[i] == 0 && up != IA_NO_ENTRY)
            branch[i] = branch[up];
    }
    free(largest);
    return branch;
}

/* -- groups ---------------------------------------------------------------- */

/* Steps from a storage up to the holder's item; a chain's may be many more,
 * and a chain has no items. */
#define MAX_ITEM_HOPS 32

/* The item of the holder that a storage hangs on, or IA_NO_ENTRY. */
static uint32_t
item_above(const ia_walk *w, uint32_t entry, uint32_t holder)
{
    for (int hop = 0; hop < MAX_ITEM_HOPS && entry != IA_NO_ENTRY; hop++) {
        uint32_t up = w->queue[entry].parent;
        if (up == holder)
            return entry;
        entry = up;
    }
    return IA_NO_ENTRY;
}

/* What was met of the holders' items. */
typedef struct {
    uint64_t *entries; /* owned; a bit for each that was met */
    /* Of one dict whose keys may lead to storages: the number of each key's
     * and value's pair, and of those that were met. */
    uint32_t dict;
    ia_ptrmap pairs, met;
} items_met;

static void
items_free(items_met *m)
{
    free(m->entries);
    ia_ptrmap_free(&m->pairs);
    ia_ptrmap_free(&m->met);
}

/* Short of memory, keys and values count for themselves. */
static void
list_pairs(items_met *m, const ia_walk *w, uint32_t holder)
{
    PyObject *op = (PyObject *)w->queue[holder].ref, *key, *value;
    Py_ssize_t pos = 0;
    uint32_t number = 0;
    m->dict = holder;
    ia_ptrmap_free(&m->pairs);
    ia_ptrmap_free(&m->met);
    if (IA_TAG(w->queue[holder].ref) != IA_TAG_OBJECT || !PyDict_Check(op))
        return;
    while (PyDict_Next(op, &pos, &key, &value)) {
        number++;
        if (!ia_is_gc(key) && ia_kind_of(Py_TYPE(key)) == IA_KIND_PLAIN)
            continue;
        if (ia_ptrmap_set(&m->pairs, (uintptr_t)key, number) < 0 ||
            ia_ptrmap_set(&m->pairs, (uintptr_t)value, number) < 0)
            return;
    }
}

/* Whether nothing before this hangs on the same item of the holder. */
static int
is_new_item(const ia_walk *w, uint32_t item, uint32_t holder, items_met *m)
{
    if (item == IA_NO_ENTRY || m->entries[item / 64] & UINT64_C(1) << item % 64)
        return 0;
    m->entries[item / 64] |= UINT64_C(1) << item % 64;
    if (m->dict != holder)
        list_pairs(m, w, holder);
    uint32_t pair = ia_ptrmap_get(&m->pairs, IA_ADDRESS(w->queue[item].ref));
    return pair == IA_PTRMAP_NONE || ia_ptrmap_add(&m->met, pair, 0) != 0;
}

/* The holder's items that lead to a storage, and the tensor objects that show
 * it there. */
static void
count_ways(const ia_walk *w, const ia_member *member, ia_group *g,
           items_met *m)
{
    const ia_storages *all = w->storages;
    const ia_reached *r = &all->items[member->storage];
    uint32_t item = item_above(w, r->entry, g->holder);
    g->branches += (uint32_t)is_new_item(w, item, g->holder, m);
    g->objects += IA_TAG(w->queue[r->entry].ref) == IA_TAG_OBJECT;
    for (uint32_t at = r->beside; at != 0; at = all->beside[at].next) {
        item = item_above(w, all->beside[at].entry, g->holder);
        g->branches += (uint32_t)is_new_item(w, item, g->holder, m);
        g->objects += item != IA_NO_ENTRY;
    }
}

static int
make_groups(const ia_walk *w, const ia_parting *s, ia_member *members, uint32_t n,
            ia_groups *out)
{
    items_met met = {.dict = IA_NO_ENTRY};
    met.entries = calloc(w->count / 64 + 1, sizeof *met.entries);
    qsort(members, n, sizeof *members, by_group);
    uint32_t *branch = find_branches(w, s, members, n);
    out->items = calloc(n ? n : 1, sizeof *out->items);
    out->births = calloc(n ? n : 1, sizeof *out->births);
    if (out->items == NULL || out->births == NULL || met.entries == NULL ||
        branch == NULL) {
        items_free(&met);
        free(branch);
        return -1;
    }
    ia_group *g = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (g == NULL || g->holder != members[i].holder ||
            g->site != members[i].site) {
            g = &out->items[out->count++];
            g->holder = members[i].holder;
            g->site = members[i].site;
            g->births = out->nbirths;
        }
        count_ways(w, &members[i], g, &met);
        add_member(w, s, branch, out, &members[i], i ? &members[i - 1] : NULL);
    }
    items_free(&met);
    free(branch);
    return 0;
}

static int
is_target(const ia_walk *w, const ia_wanted *wanted, const ia_reached *r)
{
    if (r->entry == IA_NO_ENTRY || !r->in_ledger || r->allowed ||
        r->accounted_for ||
        !ia_is_wanted(wanted, r->site,
                      ia_birth_by(wanted->clock, r->position, r->generation)))
        return 0;
    return r->entry < w->rooted_entries ||
           (r->entry < w->claimed_entries && r->generation < wanted->now);
}

/* 0 or -1; *out is malloc'ed, holders are not filled in yet. */
static int
list_targets(const ia_walk *w, const ia_wanted *wanted, ia_member **out,
             uint32_t *count)
{
    ia_storages *all = w->storages;
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->count; i++)
        n += (uint32_t)is_target(w, wanted, &all->items[i]);
    ia_member *list = *out = calloc(n + 1, sizeof *list);
    if (list == NULL)
        return -1;
    for (uint32_t i = 0; n > 0 && i < all->count; i++) {
        ia_reached *r = &all->items[i];
        if (!is_target(w, wanted, r))
            continue;
        r->asked_for = 1;
        uint32_t birth =
            ia_birth_by(wanted->clock, r->position, r->generation);
        int how = wanted->of_site[r->site];
        list[(*count)++] =
            (ia_member){0, r->site, birth, i,
                        how == IA_WANTED_EACH ? i : birth,
                        how == IA_WANTED_ALONE};
    }
    return 0;
}

/* -- names of a module --------------------------------------------------- */

/* Variables of one module that hold what one line made in so many steps are
 * no coincidence: names are made up as the program runs. */
#define MIN_NAMES 4

static int
is_module(const ia_walk *w, uint32_t entry)
{
    return IA_TAG(w->queue[entry].ref) == IA_TAG_OBJECT &&
           w->roots->items[w->queue[entry].root].kind == IA_ROOT_MODULE;
}

/* Those without a holder of their own, by the module that they hang on. */
static uint32_t
list_homeless(const ia_walk *w, const ia_parting *s, const ia_member *members,
              uint32_t n, ia_member *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = w->storages->items[members[i].storage].entry;
        uint32_t root = s->root[entry];
        if (members[i].alone || s->weight[entry] >= 2 ||
            !is_module(w, root))
            continue;
        out[found] = members[i];
        out[found].holder = root;
        out[found++].storage = i;
    }
    qsort(out, found, sizeof *out, by_group);
    return found;
}

/* A module is a holder where it alone parts the generations of a site. */
static int
settle_homeless(const ia_walk *w, const ia_parting *s, ia_member *members,
                uint32_t n)
{
    ia_member *list = calloc(n + 1, sizeof *list);
    if (list == NULL)
        return -1;
    uint32_t found = list_homeless(w, s, members, n, list), end;
    for (uint32_t i = 0; i < found; i = end) {
        uint32_t generations = 1;
        for (end = i + 1; end < found && list[end].site == list[i].site &&
                          list[end].holder == list[i].holder;
             end++)
            generations += list[end].generation != list[end - 1].generation;
        for (uint32_t j = i; generations >= MIN_NAMES && j < end; j++)
            members[list[j].storage].holder = list[j].holder;
    }
    free(list);
    return 0;
}

int
ia_groups_find(const ia_walk *w, const ia_wanted *wanted, ia_groups *out)
{
    ia_parting s = {0};
    ia_peers_memo memo = {.entry = IA_NO_ENTRY, .holder = IA_NO_ENTRY};
    ia_member *members = NULL;
    uint32_t n = 0;
    int result = -1;
    *out = (ia_groups){0};
    if (list_targets(w, wanted, &members, &n) < 0)
        return -1;
    if (n == 0) {
        free(members);
        return 0;
    }
    if (ia_parting_find(w, members, n, &s) < 0)
        goto done;
    for (uint32_t i = 0; i < n; i++)
        members[i].holder = holder_of(w, &s, &members[i], &memo);
    if (settle_homeless(w, &s, members, n) < 0)
        goto done;
    result = make_groups(w, &s, members, n, out);
    out->path = s.path;
    out->npath = s.npath;
    s.path = NULL;
done:
    ia_ptrmap_free(&memo.beside);
    free(members);
    ia_parting_free(&s);
    return result;
}

void
ia_groups_free(ia_groups *groups)
{
    free(groups->items);
    free(groups->births);
    free(groups->path);
    *groups = (ia_groups){0};
}
