/* Holders with all that hangs on them, and which are of one sort. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/ptrmap.h"
#include "holders.h"

#include <stdlib.h>
#include <string.h>

void
ia_holders_free(ia_holders *k)
{
    free(k->items);
    free(k->others);
    free(k->cuts);
    *k = (ia_holders){0};
}

static int
by_size(const void *a, const void *b)
{
    const ia_holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->count < y->count) - (x->count > y->count);
}

static void
add_group(ia_holder *k, const ia_groups *groups, uint32_t i,
          const ia_wanted *wanted)
{
    const ia_group *g = &groups->items[i];
    const ia_group *primary = &groups->items[k->primary];
    if (k->ngroups++ == 0 || g->depth < primary->depth ||
        (g->depth == primary->depth && g->bytes > primary->bytes))
        k->primary = i;
    if (k->ngroups == 1 || g->first_generation < k->began)
        k->began = g->first_generation;
    if (g->last_generation > k->ended)
        k->ended = g->last_generation;
    k->grows |= g->generations > 1 || ia_is_any_age(wanted, g->site);
    k->count += g->count;
    k->branches += g->branches;
    k->bytes += g->bytes;
    if (g->parts > k->parts)
        k->parts = g->parts;
}

/* -- holders of one sort ---------------------------------------------------- */

/* Calls of one function, as of many threads, are one by its name. */
static uint64_t
start_of(const ia_walk *w, uint32_t entry)
{
    const ia_root *root = &w->roots->items[w->queue[entry].root];
    uint64_t h = 0;
    if (root->kind != IA_ROOT_FRAME)
        return w->queue[entry].ref;
    for (const char *c = root->name; *c != 0; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
    return h;
}

uint64_t
ia_way_of(const ia_walk *w, uint32_t entry)
{
    uint64_t h = 0;
    uint32_t i = entry;
    for (; w->queue[i].parent != IA_NO_ENTRY; i = w->queue[i].parent) {
        uintptr_t ref = w->queue[i].ref;
        uintptr_t type = IA_TAG(ref) == IA_TAG_OBJECT
                             ? (uintptr_t)Py_TYPE((PyObject *)ref)
                             : IA_TAG(ref);
        h = (h ^ type) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    return (h ^ start_of(w, i)) * UINT64_C(0x9E3779B97F4A7C15);
}

/* `layers[0].seen`, `layers[1].seen`: storages of the same line. */
static uint64_t
sort_of(const ia_walk *w, const ia_groups *groups, const ia_holder *k)
{
    uint64_t site = groups->items[k->primary].site;
    return ia_way_of(w, k->entry) ^ site * UINT64_C(0xD6E8FEB86659FD93);
}

/* By sort, and those of one sort by when they began. */
static int
by_sort(const void *a, const void *b)
{
    const ia_holder *x = *(ia_holder *const *)a, *y = *(ia_holder *const *)b;
    if (x->sort != y->sort)
        return x->sort < y->sort ? -1 : 1;
    return (x->began > y->began) - (x->began < y->began);
}

static int
by_birth(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Different births of all that some holders have; `scratch` has room. */
static uint32_t
births_of(const ia_groups *groups, ia_holder *const *some, uint32_t n,
          uint32_t *scratch)
{
    uint32_t count = 0, different = 0;
    if (n == 1 && some[0]->ngroups == 1)
        return groups->items[some[0]->first].generations;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < some[i]->ngroups; j++) {
            const ia_group *g = &groups->items[some[i]->first + j];
            memcpy(scratch + count, groups->births + g->births,
                   g->generations * sizeof *scratch);
            count += g->generations;
        }
    qsort(scratch, count, sizeof *scratch, by_birth);
    for (uint32_t i = 0; i < count; i++)
        different += i == 0 || scratch[i] != scratch[i - 1];
    return different;
}

/* What holders of one sort are together; they began one after another. */
static void
note_sort(const ia_groups *groups, ia_holder **some, uint32_t n,
          uint32_t *scratch)
{
    uint32_t generations = births_of(groups, some, n, scratch);
    uint32_t ended = some[0]->ended;
    int in_turn = 1;
    for (uint32_t i = 1; i < n; i++) {
        in_turn &= ended < some[i]->began;
        if (some[i]->ended > ended)
            ended = some[i]->ended;
    }
    for (uint32_t i = 0; i < n; i++) {
        some[i]->sort_members = n;
        some[i]->sort_began = some[0]->began;
        some[i]->sort_ended = ended;
        some[i]->sort_generations = generations;
        some[i]->in_turn = in_turn;
    }
}

static int
note_sorts(const ia_walk *w, const ia_groups *groups, ia_holders *k)
{
    ia_holder **all = calloc((size_t)k->count + 1, sizeof *all);
    uint32_t *scratch = calloc((size_t)groups->nbirths + 1, sizeof *scratch);
    uint32_t end;
    for (uint32_t i = 0; all != NULL && i < k->count; i++) {
        all[i] = &k->items[i];
        all[i]->sort = sort_of(w, groups, all[i]) | 1;
    }
    if (all != NULL && scratch != NULL) {
        qsort(all, k->count, sizeof *all, by_sort);
        for (uint32_t i = 0; i < k->count; i = end) {
            for (end = i + 1;
                 end < k->count && all[end]->sort == all[i]->sort; end++)
                ;
            note_sort(groups, &all[i], end - i, scratch);
        }
    }
    int result = all != NULL && scratch != NULL ? 0 : -1;
    free(all);
    free(scratch);
    return result;
}

static int
add_other(ia_holders *out, uint32_t told, const ia_holder *other)
{
    ia_holder *k = &out->items[told];
    if (IA_ROOM(out->others, out->others_capacity, out->nothers + 1) < 0)
        return -1;
    out->others[out->nothers++] = (ia_other){told, other->entry};
    k->others++;
    k->others_count += other->count;
    k->others_bytes += other->bytes;
    return 0;
}

/* Too many to be told singly: the largest of each sort stands for all. */
static int
join_sorts(ia_holders *out)
{
    ia_ptrmap first = {0};
    uint32_t kept = 0;
    int result = -1;
    for (uint32_t i = 0; i < out->count; i++) {
        ia_holder k = out->items[i];
        uint32_t at = ia_ptrmap_get(&first, (uintptr_t)k.sort);
        if (at != IA_PTRMAP_NONE) {
            if (add_other(out, at, &k) < 0)
                goto done;
            continue;
        }
        if (ia_ptrmap_set(&first, (uintptr_t)k.sort, kept) < 0)
            goto done;
        out->items[kept++] = k;
    }
    out->count = kept;
    result = 0;
done:
    ia_ptrmap_free(&first);
    return result;
}

int
ia_holders_find(const ia_walk *w, const ia_groups *groups,
                const ia_wanted *wanted, uint32_t most, ia_holders *out)
{
    *out = (ia_holders){0};
    if (most > IA_MAX_CUT_GROUPS)
        most = IA_MAX_CUT_GROUPS;
    out->items = calloc(groups->count + 1, sizeof *out->items);
    if (out->items == NULL)
        return -1;
    ia_holder *k = NULL;
    for (uint32_t i = 0; i < groups->count; i++) {
        if (k == NULL || k->entry != groups->items[i].holder) {
            k = &out->items[out->count++];
            k->entry = groups->items[i].holder;
            k->first = k->primary = i;
        }
        add_group(k, groups, i, wanted);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++)
        if (out->items[i].grows)
            out->items[kept++] = out->items[i];
    out->count = kept;
    qsort(out->items, out->count, sizeof *out->items, by_size);
    if (note_sorts(w, groups, out) < 0 ||
        (out->count > most && join_sorts(out) < 0))
        return -1;
    for (; out->count > most; out->count--)
        out->left_out += 1 + out->items[out->count - 1].others;
    return 0;
}
