/* From storages that were reached to the objects that keep them. */

#include "holders.h"

#include <stdlib.h>
#include <string.h>

/* Two links of a chain may have a dict or a graph node between them. */
#define MAX_LINK_HOPS 4

typedef struct {
    uint32_t *own;    /* generation + 1 of a storage at the entry itself */
    uint32_t *newest; /* generation + 1 below the entry, 0 = none */
    uint32_t *score;  /* branches of different generations */
    uint32_t *run;    /* links of a chain down to this entry */
    uint32_t *head;   /* first link of that chain */
    uint32_t *best;   /* holder of what hangs here */
    uint32_t *weight; /* how telling it is */
    uint32_t *branch; /* scratch: generations of one parent's branches */
} scores;

static void
scores_free(scores *s)
{
    free(s->own);
    free(s->newest);
    free(s->score);
    free(s->run);
    free(s->head);
    free(s->best);
    free(s->weight);
    free(s->branch);
}

/* calloc throughout: what no target's path touches stays untouched pages. */
static int
scores_init(scores *s, size_t n)
{
    uint32_t **arrays[] = {&s->own,  &s->newest, &s->score,  &s->run,
                           &s->head, &s->best,   &s->weight, &s->branch};
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = calloc(n + 1, sizeof(uint32_t));
        if (*arrays[i] == NULL) {
            scores_free(s);
            return -1;
        }
    }
    return 0;
}

static int
by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t
count_distinct(uint32_t *values, uint32_t n)
{
    uint32_t distinct = 0;
    qsort(values, n, sizeof *values, by_value);
    for (uint32_t i = 0; i < n; i++)
        distinct += i == 0 || values[i] != values[i - 1];
    return distinct;
}

/* The children of one entry stand side by side in the queue: scanning it
 * backwards meets all branches of a parent before the parent itself. */
static void
score_entries(const ia_walk *w, scores *s)
{
    uint32_t i = w->count;
    while (i > 0) {
        uint32_t parent = w->queue[i - 1].parent, n = 0, newest = 0;
        for (; i > 0 && w->queue[i - 1].parent == parent; i--) {
            uint32_t g = s->newest[i - 1];
            if (s->own[i - 1] > g)
                g = s->newest[i - 1] = s->own[i - 1];
            if (g == 0 || parent == IA_NO_ENTRY)
                continue;
            s->branch[n++] = g;
            if (g > newest)
                newest = g;
        }
        if (n == 0)
            continue;
        if (s->own[parent])
            s->branch[n++] = s->own[parent];
        /* A parent's children may stand in two runs (a second root pass). */
        uint32_t score = count_distinct(s->branch, n);
        if (score > s->score[parent])
            s->score[parent] = score;
        if (newest > s->newest[parent])
            s->newest[parent] = newest;
    }
}

/* The first link may have lost its own storage to a shorter path: links are
 * of one type. */
static uint32_t
first_link(const ia_walk *w, uint32_t i)
{
    uint32_t up = w->queue[i].parent;
    if (IA_TAG(w->queue[i].ref) != IA_TAG_OBJECT)
        return i;
    PyTypeObject *type = Py_TYPE((PyObject *)w->queue[i].ref);
    for (int hop = 0; hop < MAX_LINK_HOPS && up != IA_NO_ENTRY; hop++) {
        if (w->queue[up].parent == IA_NO_ENTRY)
            break;
        if (IA_TAG(w->queue[up].ref) == IA_TAG_OBJECT &&
            Py_TYPE((PyObject *)w->queue[up].ref) == type) {
            i = up;
            hop = -1;
        }
        up = w->queue[up].parent;
    }
    return i;
}

static void
link_up(const ia_walk *w, scores *s, uint32_t i)
{
    uint32_t up = w->queue[i].parent;
    s->run[i] = 1;
    s->head[i] = first_link(w, i);
    for (int hop = 0; hop < MAX_LINK_HOPS && up != IA_NO_ENTRY; hop++) {
        if (s->score[up] >= 2 && w->queue[up].parent != IA_NO_ENTRY) {
            s->run[i] = s->run[up] + 1;
            s->head[i] = s->head[up];
            return;
        }
        up = w->queue[up].parent;
    }
}

/* Modules and running calls are no holders: they are where names live. */
static int
is_place(const ia_walk *w, uint32_t i)
{
    return w->queue[i].parent == IA_NO_ENTRY &&
           IA_TAG(w->queue[i].ref) != IA_TAG_CROWD;
}

static void
choose_holders(const ia_walk *w, scores *s)
{
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t parent = w->queue[i].parent;
        if (s->newest[i] == 0)
            continue;
        s->best[i] = parent == IA_NO_ENTRY ? i : s->best[parent];
        s->weight[i] = parent == IA_NO_ENTRY ? 0 : s->weight[parent];
        if (s->score[i] < 2 || is_place(w, i))
            continue;
        link_up(w, s, i);
        if (s->score[i] > s->weight[i]) {
            s->weight[i] = s->score[i];
            s->best[i] = s->score[i] == 2 ? s->head[i] : i;
        }
        if (s->run[i] > s->weight[i]) {
            s->weight[i] = s->run[i];
            s->best[i] = s->head[i];
        }
    }
}

/* The tensor, or whatever else Python has, that a graph node hangs on. */
static uint32_t
above_graph(const ia_walk *w, uint32_t entry)
{
    while (IA_TAG(w->queue[entry].ref) == IA_TAG_NODE &&
           w->queue[entry].parent != IA_NO_ENTRY)
        entry = w->queue[entry].parent;
    return entry;
}

/* With one storage only nothing parts: the tensor stands for itself. */
static uint32_t
holder_of(const ia_walk *w, const scores *s, uint32_t entry)
{
    return above_graph(w, s->weight[entry] >= 2 ? s->best[entry] : entry);
}

static uint32_t
depth_below(const ia_walk *w, uint32_t entry, uint32_t holder)
{
    uint32_t depth = 0;
    while (entry != holder && entry != IA_NO_ENTRY) {
        entry = w->queue[entry].parent;
        depth++;
    }
    return depth;
}

typedef struct {
    uint32_t holder, site, generation, storage;
} member;

static int
by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->holder != y->holder)
        return x->holder < y->holder ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return (x->generation > y->generation) - (x->generation < y->generation);
}

/* Depths are looked at for a few members only: a chain's may be long. */
#define MAX_DEPTH_PROBES 64

static void
add_member(const ia_walk *w, ia_group *g, const member *m, uint32_t last)
{
    const ia_reached *r = &w->storages->items[m->storage];
    if (g->count == 0 || m->generation != last)
        g->generations++;
    if (g->count++ == 0)
        g->first_generation = m->generation;
    g->last_generation = m->generation;
    g->bytes += r->bytes;
    if (g->count > MAX_DEPTH_PROBES && m->generation == last)
        return;
    uint32_t depth = depth_below(w, r->entry, m->holder);
    if (g->count == 1 || depth <= g->depth) {
        g->depth = depth;
        g->example = m->storage;
    }
}

static int
make_groups(const ia_walk *w, member *members, uint32_t n, ia_groups *out)
{
    qsort(members, n, sizeof *members, by_group);
    out->items = calloc(n ? n : 1, sizeof *out->items);
    if (out->items == NULL)
        return -1;
    ia_group *g = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (g == NULL || g->holder != members[i].holder ||
            g->site != members[i].site) {
            g = &out->items[out->count++];
            g->holder = members[i].holder;
            g->site = members[i].site;
        }
        add_member(w, g, &members[i], i ? members[i - 1].generation : 0);
    }
    return 0;
}

static int
is_target(const ia_reached *r, const uint8_t *wanted, uint32_t nsites,
          uint32_t since)
{
    return r->entry != IA_NO_ENTRY && r->in_ledger && !r->allowed &&
           r->site < nsites && wanted[r->site] &&
           (wanted[r->site] == IA_WANTED_ANY_AGE || r->generation >= since);
}

int
ia_holders_find(const ia_walk *w, const uint8_t *wanted, uint32_t nsites,
                uint32_t since, ia_groups *out)
{
    scores s;
    *out = (ia_groups){0};
    const ia_storages *all = w->storages;
    member *members = calloc(all->count + 1, sizeof *members);
    uint32_t n = 0;
    if (members == NULL || scores_init(&s, w->count) < 0) {
        free(members);
        return -1;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        const ia_reached *r = &all->items[i];
        if (is_target(r, wanted, nsites, since) &&
            r->generation + 1 > s.own[r->entry])
            s.own[r->entry] = r->generation + 1;
    }
    score_entries(w, &s);
    choose_holders(w, &s);
    for (uint32_t i = 0; i < all->count; i++) {
        const ia_reached *r = &all->items[i];
        if (is_target(r, wanted, nsites, since))
            members[n++] = (member){holder_of(w, &s, r->entry), r->site,
                                    r->generation, i};
    }
    int result = make_groups(w, members, n, out);
    out->below = s.newest;
    s.newest = NULL;
    free(members);
    scores_free(&s);
    return result;
}

void
ia_groups_free(ia_groups *groups)
{
    free(groups->items);
    free(groups->below);
    *groups = (ia_groups){0};
}
