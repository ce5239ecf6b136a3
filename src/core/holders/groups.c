/* From storages that were reached to the objects that keep them. */

#include "../base/compat.h"
#include "../base/read.h"
#include "groups.h"

#include <stdlib.h>
#include <string.h>

/* Two links of a chain may have a dict or a graph node between them. */
#define MAX_LINK_HOPS 4

static int
is_instance_dict(const ia_walk *w, uint32_t entry)
{
    uint32_t up = w->queue[entry].parent;
    if (up == IA_NO_ENTRY || IA_TAG(w->queue[up].ref) != IA_TAG_OBJECT)
        return 0;
    PyObject *owner = (PyObject *)w->queue[up].ref;
    PyObject *dict = (PyObject *)w->queue[entry].ref;
    return ia_get_instance_dict(owner) == dict ||
           (PyType_Check(owner) &&
            ((PyTypeObject *)owner)->tp_dict == dict) ||
           (PyFunction_Check(owner) &&
            ((PyFunctionObject *)owner)->func_globals == dict);
}

int
ia_entry_is_container(const ia_walk *w, uint32_t entry)
{
    const ia_entry *e = &w->queue[entry];
    return IA_TAG(e->ref) == IA_TAG_OBJECT && e->parent != IA_NO_ENTRY &&
           ia_container_length((PyObject *)e->ref) >= 0 &&
           !is_instance_dict(w, entry);
}

typedef struct {
    uint32_t holder, site, generation, storage;
    uint32_t part; /* branches are told apart by it */
} member;

/* What hangs on one branch: first and last part, and how many are told
 * apart in there. */
typedef struct {
    uint32_t oldest, newest, score;
    uint32_t low, high; /* ids of the lines that made it */
    int nested;    /* something in there parts them, and it is no tensor */
    int container;
} stretch;

typedef struct {
    uint32_t *path;   /* entries that lead to a target, in order */
    uint32_t npath;
    uint32_t *own;    /* part + 1 of a storage at the entry itself */
    uint32_t *newest; /* part + 1 below the entry, 0 = none */
    uint32_t *oldest; /* likewise */
    uint32_t *low;    /* site + 1 below the entry: the lowest, */
    uint32_t *high;   /* and the highest */
    uint32_t *score;  /* branches of different parts */
    uint32_t *level;  /* whether its containers, or it, are the holders */
    uint32_t *run;    /* links of a chain down to this entry */
    uint32_t *head;   /* first link of that chain */
    uint32_t *best;   /* holder of what hangs here */
    uint32_t *weight; /* how telling it is */
    stretch *branch;  /* scratch: one parent's branches */
    uint32_t *root;   /* where the way to the entry starts */
    uint32_t *above;  /* what the graph that the entry is a node of hangs on */
    uint32_t *depth;  /* below the root */
} scores;

static void
scores_free(scores *s)
{
    free(s->path);
    free(s->own);
    free(s->newest);
    free(s->oldest);
    free(s->low);
    free(s->high);
    free(s->score);
    free(s->level);
    free(s->run);
    free(s->head);
    free(s->best);
    free(s->weight);
    free(s->branch);
    free(s->root);
    free(s->above);
    free(s->depth);
}

/* calloc throughout: what no target's path touches stays untouched pages. */
static int
scores_init(scores *s, size_t n)
{
    uint32_t **arrays[] = {&s->own,  &s->newest, &s->oldest, &s->score,
                           &s->run,  &s->head,   &s->best,   &s->weight,
                           &s->root, &s->above,  &s->depth,  &s->level,
                           &s->low,  &s->high};
    memset(s, 0, sizeof *s);
    s->branch = calloc(n + 1, sizeof *s->branch);
    if (s->branch == NULL)
        return -1;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = calloc(n + 1, sizeof(uint32_t));
        if (*arrays[i] == NULL)
            return -1;
    }
    return 0;
}

/* Marks the way up from one target, as far as it is not marked yet. */
static uint32_t
mark_path(const ia_walk *w, uint64_t *marked, uint32_t entry)
{
    uint32_t fresh = 0;
    while (entry != IA_NO_ENTRY &&
           !(marked[entry / 64] & UINT64_C(1) << entry % 64)) {
        marked[entry / 64] |= UINT64_C(1) << entry % 64;
        entry = w->queue[entry].parent;
        fresh++;
    }
    return fresh;
}

/* Lists the entries on all paths: few beside the whole queue. */
static int
find_paths(const ia_walk *w, const member *targets, uint32_t n, scores *s)
{
    size_t words = w->count / 64 + 1;
    uint64_t *marked = calloc(words, sizeof *marked);
    uint32_t count = 0;
    if (marked == NULL)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        count += mark_path(w, marked,
                           w->storages->items[targets[i].storage].entry);
    s->path = calloc(count + 1, sizeof *s->path);
    for (size_t i = 0; s->path != NULL && i < words; i++)
        for (uint64_t rest = marked[i]; rest != 0; rest &= rest - 1)
            s->path[s->npath++] =
                (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(rest);
    free(marked);
    return s->path != NULL ? 0 : -1;
}

/* What climbing would tell of each entry, and a chain may be a million long:
 * parents stand before their children. */
static void
trace_paths(const ia_walk *w, scores *s)
{
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at], parent = w->queue[i].parent;
        s->root[i] = s->above[i] = i;
        if (parent == IA_NO_ENTRY)
            continue;
        s->root[i] = s->root[parent];
        s->depth[i] = s->depth[parent] + 1;
        if (IA_TAG(w->queue[i].ref) == IA_TAG_NODE)
            s->above[i] = s->above[parent];
    }
}

static int
by_newest(const void *a, const void *b)
{
    uint32_t x = ((const stretch *)a)->newest;
    uint32_t y = ((const stretch *)b)->newest;
    return (x > y) - (x < y);
}

static int
is_of_the_same_lines(const stretch *branch, uint32_t n)
{
    const stretch *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!branch[i].container && !branch[i].nested)
            continue;
        if (first == NULL)
            first = &branch[i];
        if (branch[i].low != first->low || branch[i].high != first->high)
            return 0;
    }
    return first != NULL;
}

/* How many parts the branches tell apart: one each, by what came last. */
static uint32_t
count_parts(stretch *branch, uint32_t n)
{
    uint32_t distinct = 0;
    qsort(branch, n, sizeof *branch, by_newest);
    for (uint32_t i = 0; i < n; i++)
        distinct += i == 0 || branch[i].newest != branch[i - 1].newest;
    return distinct;
}

static stretch
stretch_of(const ia_walk *w, const scores *s, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    int nested = s->score[entry] >= 2 && IA_TAG(ref) == IA_TAG_OBJECT &&
                 ia_kind_of(Py_TYPE((PyObject *)ref)) != IA_KIND_TENSOR;
    return (stretch){s->oldest[entry], s->newest[entry], s->score[entry],
                     s->low[entry],    s->high[entry],   nested,
                     ia_entry_is_container(w, entry)};
}

enum { EACH_FOR_ITSELF, ALL_OF_THEM, NONE_OF_THEM };

/* Has none of the branches begun in the last third of the time? */
static int
is_complete(const stretch *branch, uint32_t n)
{
    uint32_t first = UINT32_MAX, last_begun = 0, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (branch[i].oldest < first)
            first = branch[i].oldest;
        if (branch[i].oldest > last_begun)
            last_begun = branch[i].oldest;
        if (branch[i].newest > last)
            last = branch[i].newest;
    }
    return 3 * (uint64_t)(last - last_begun) > last - first;
}

/* A dict of lists: do they grow, or does it?  All of them are holders or none
 * is.  They are where no key has come for long, or where one of them parts
 * more on the average than there are. */
static uint32_t
level_of(const stretch *branch, uint32_t n, uint32_t score)
{
    uint64_t containers = 0, nested = 0, total = 0;
    for (uint32_t i = 0; i < n; i++) {
        nested += (uint64_t)branch[i].nested;
        containers += (uint64_t)branch[i].container;
        if (branch[i].container)
            total += branch[i].score > 1 ? branch[i].score : 1;
    }
    if (nested < 2 || containers < 2 || !is_of_the_same_lines(branch, n))
        return EACH_FOR_ITSELF;
    return total > containers * score ||
                   (score < total && is_complete(branch, n))
               ? ALL_OF_THEM
               : NONE_OF_THEM;
}

static void
note_lines(scores *s, uint32_t entry, uint32_t low, uint32_t high)
{
    if (s->low[entry] == 0 || low < s->low[entry])
        s->low[entry] = low;
    if (high > s->high[entry])
        s->high[entry] = high;
}

static void
note_part(scores *s, uint32_t entry, uint32_t oldest, uint32_t newest)
{
    if (newest > s->newest[entry])
        s->newest[entry] = newest;
    if (s->oldest[entry] == 0 || oldest < s->oldest[entry])
        s->oldest[entry] = oldest;
}

/* The children of one entry stand side by side in the queue: scanning it
 * backwards meets all branches of a parent before the parent itself. */
static void
score_entries(const ia_walk *w, scores *s)
{
    uint32_t i = s->npath;
    while (i > 0) {
        uint32_t parent = w->queue[s->path[i - 1]].parent, n = 0;
        for (; i > 0 && w->queue[s->path[i - 1]].parent == parent; i--) {
            uint32_t entry = s->path[i - 1];
            if (s->own[entry])
                note_part(s, entry, s->own[entry], s->own[entry]);
            if (parent == IA_NO_ENTRY)
                continue;
            s->branch[n++] = stretch_of(w, s, entry);
            note_part(s, parent, s->oldest[entry], s->newest[entry]);
            note_lines(s, parent, s->low[entry], s->high[entry]);
        }
        if (n == 0)
            continue;
        if (s->own[parent])
            s->branch[n++] =
                (stretch){s->own[parent], s->own[parent], 1, 0, 0, 0, 0};
        /* A parent's children may stand in two runs (a second root pass). */
        uint32_t score = count_parts(s->branch, n);
        if (score <= s->score[parent])
            continue;
        s->score[parent] = score;
        s->level[parent] = level_of(s->branch, n, score);
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
    for (int hop = 0; hop < MAX_LINK_HOPS && up != IA_NO_ENTRY; hop++) {
        if (s->score[up] >= 2 && w->queue[up].parent != IA_NO_ENTRY) {
            s->run[i] = s->run[up] + 1;
            s->head[i] = s->head[up];
            return;
        }
        up = w->queue[up].parent;
    }
    s->run[i] = 1;
    s->head[i] = first_link(w, i);
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
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at], parent = w->queue[i].parent;
        s->best[i] = parent == IA_NO_ENTRY ? i : s->best[parent];
        s->weight[i] = parent == IA_NO_ENTRY ? 0 : s->weight[parent];
        uint32_t level = parent == IA_NO_ENTRY ? EACH_FOR_ITSELF
                                               : s->level[parent];
        if (level != EACH_FOR_ITSELF && ia_entry_is_container(w, i)) {
            if (level == ALL_OF_THEM) {
                s->weight[i] = s->score[i] > 2 ? s->score[i] : 2;
                s->best[i] = i;
            }
            continue;
        }
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

/* Containers of more items than this are no states. */
#define MAX_PEERS 64

typedef struct {
    PyObject *results[MAX_PEERS]; /* tensors that a graph leads to */
    uint32_t count;
} peers;

static int
list_peer(PyObject *op, void *arg)
{
    peers *p = arg;
    if (op != NULL && p->count < MAX_PEERS &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR &&
        ia_the_framework->grad_fn_of(op) != NULL)
        p->results[p->count++] = op;
    return 0;
}

/* The results in a small container of more than one; else none. */
static void
find_peers(const ia_walk *w, uint32_t entry, peers *p)
{
    p->count = 0;
    if (!ia_entry_is_container(w, entry))
        return;
    PyObject *op = (PyObject *)w->queue[entry].ref;
    if (ia_container_length(op) <= MAX_PEERS && Py_TYPE(op)->tp_traverse)
        Py_TYPE(op)->tp_traverse(op, list_peer, p);
    if (p->count < 2)
        p->count = 0;
}

/* The last answer of with_peers(), as members of one holder come together, and
 * the containers beside variables, by the results in them. */
typedef struct {
    uint32_t entry, holder;
    ia_ptrmap beside;
    int listed; /* those containers are in it */
} peers_memo;

/* A result in a container that is a variable of the same namespace. */
static uintptr_t
key_beside(uint32_t namespace, PyObject *op)
{
    return (uintptr_t)op + namespace * UINT64_C(0x9E3779B97F4A7C15);
}

static int
list_beside(const ia_walk *w, peers_memo *memo)
{
    peers p;
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t up = w->queue[i].parent;
        if (up == IA_NO_ENTRY || w->queue[up].parent != IA_NO_ENTRY)
            continue;
        find_peers(w, i, &p);
        for (uint32_t n = 0; n < p.count; n++) {
            uintptr_t key = key_beside(up, p.results[n]);
            if (ia_ptrmap_get(&memo->beside, key) == IA_PTRMAP_NONE &&
                ia_ptrmap_set(&memo->beside, key, i) < 0)
                return -1;
        }
    }
    return 0;
}

/* Results that stand side by side, the (h, c) of an LSTM or the weights of an
 * inner loop, hang on one graph: cutting one of them frees nothing, their
 * container is what holds it, be one of them a variable besides. */
static uint32_t
with_peers(const ia_walk *w, uint32_t entry, peers_memo *memo)
{
    peers p;
    uint32_t up = w->queue[entry].parent;
    PyObject *op = (PyObject *)w->queue[entry].ref;
    if (up == IA_NO_ENTRY || IA_TAG(w->queue[entry].ref) != IA_TAG_OBJECT ||
        ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR)
        return entry;
    find_peers(w, up, &p);
    for (uint32_t n = 0; n < p.count; n++)
        if (p.results[n] == op)
            return up;
    if (w->queue[up].parent != IA_NO_ENTRY)
        return entry;
    if (!memo->listed)
        memo->listed = list_beside(w, memo) == 0;
    uint32_t beside = ia_ptrmap_get(&memo->beside, key_beside(up, op));
    return beside != IA_PTRMAP_NONE && w->queue[beside].parent == up ? beside
                                                                     : entry;
}

/* With one storage only nothing parts: the tensor stands for itself. */
static uint32_t
holder_of(const ia_walk *w, const scores *s, uint32_t entry,
          peers_memo *memo)
{
    if (s->weight[entry] < 2)
        return s->above[entry];
    uint32_t best = s->above[s->best[entry]];
    if (memo->entry != best) {
        memo->holder = with_peers(w, best, memo);
        memo->entry = best;
    }
    return memo->holder;
}

/* A holder that stands beside the way has no part in it. */
static uint32_t
depth_below(const scores *s, uint32_t entry, uint32_t holder)
{
    uint32_t above = s->depth[holder];
    return s->depth[entry] > above ? s->depth[entry] - above : 0;
}

static int
by_group(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->holder != y->holder)
        return x->holder < y->holder ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

static void
add_member(const ia_walk *w, const scores *s, ia_group *g, const member *m,
           const member *last)
{
    const ia_reached *r = &w->storages->items[m->storage];
    int first = g->count == 0 || last == NULL;
    if (first || m->generation != last->generation)
        g->generations++;
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
    if (g->count == 1 || depth <= g->depth) {
        g->depth = depth;
        g->example = m->storage;
    }
}

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

/* Whether no storage before this one hangs on the same item. */
static int
is_new_item(const ia_walk *w, const member *m, uint64_t *marked)
{
    uint32_t item = item_above(w, w->storages->items[m->storage].entry,
                               m->holder);
    if (item == IA_NO_ENTRY || marked[item / 64] & UINT64_C(1) << item % 64)
        return 0;
    marked[item / 64] |= UINT64_C(1) << item % 64;
    return 1;
}

static int
make_groups(const ia_walk *w, const scores *s, member *members, uint32_t n,
            ia_groups *out)
{
    uint64_t *marked = calloc(w->count / 64 + 1, sizeof *marked);
    qsort(members, n, sizeof *members, by_group);
    out->items = calloc(n ? n : 1, sizeof *out->items);
    if (out->items == NULL || marked == NULL) {
        free(marked);
        return -1;
    }
    ia_group *g = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (g == NULL || g->holder != members[i].holder ||
            g->site != members[i].site) {
            g = &out->items[out->count++];
            g->holder = members[i].holder;
            g->site = members[i].site;
        }
        g->branches += (uint32_t)is_new_item(w, &members[i], marked);
        add_member(w, s, g, &members[i], i ? &members[i - 1] : NULL);
    }
    free(marked);
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
    return r->entry < w->rooted_entries || r->generation < wanted->now;
}

/* 0 or -1; *out is malloc'ed, holders are not filled in yet. */
static int
list_targets(const ia_walk *w, const ia_wanted *wanted, member **out,
             uint32_t *count)
{
    const ia_storages *all = w->storages;
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->count; i++)
        n += (uint32_t)is_target(w, wanted, &all->items[i]);
    member *list = *out = calloc(n + 1, sizeof *list);
    if (list == NULL)
        return -1;
    for (uint32_t i = 0; n > 0 && i < all->count; i++) {
        const ia_reached *r = &all->items[i];
        if (!is_target(w, wanted, r))
            continue;
        uint32_t birth =
            ia_birth_by(wanted->clock, r->position, r->generation);
        int each = wanted->of_site[r->site] == IA_WANTED_EACH;
        list[(*count)++] =
            (member){0, r->site, birth, i, each ? i : birth};
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
list_homeless(const ia_walk *w, const scores *s, const member *members,
              uint32_t n, member *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = w->storages->items[members[i].storage].entry;
        uint32_t root = s->root[entry];
        if (s->weight[entry] >= 2 || !is_module(w, root))
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
settle_homeless(const ia_walk *w, const scores *s, member *members,
                uint32_t n)
{
    member *list = calloc(n + 1, sizeof *list);
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
    scores s = {0};
    peers_memo memo = {.entry = IA_NO_ENTRY, .holder = IA_NO_ENTRY};
    const ia_reached *items = w->storages->items;
    member *members = NULL;
    uint32_t n = 0;
    int result = -1;
    *out = (ia_groups){0};
    if (list_targets(w, wanted, &members, &n) < 0)
        return -1;
    if (n == 0) {
        free(members);
        return 0;
    }
    if (scores_init(&s, w->count) < 0 || find_paths(w, members, n, &s) < 0)
        goto done;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = items[members[i].storage].entry;
        if (members[i].part + 1 > s.own[entry])
            s.own[entry] = members[i].part + 1;
        note_lines(&s, entry, members[i].site + 1, members[i].site + 1);
    }
    trace_paths(w, &s);
    score_entries(w, &s);
    choose_holders(w, &s);
    for (uint32_t i = 0; i < n; i++)
        members[i].holder =
            holder_of(w, &s, items[members[i].storage].entry, &memo);
    if (settle_homeless(w, &s, members, n) < 0)
        goto done;
    result = make_groups(w, &s, members, n, out);
    out->path = s.path;
    out->npath = s.npath;
    s.path = NULL;
done:
    ia_ptrmap_free(&memo.beside);
    free(members);
    scores_free(&s);
    return result;
}

void
ia_groups_free(ia_groups *groups)
{
    free(groups->items);
    free(groups->path);
    *groups = (ia_groups){0};
}
