/* Where generations part. */

#include "../base/compat.h"
#include "../base/read.h"
#include "parting.h"

#include <stdlib.h>
#include <string.h>

/* Two links of a chain may have a dict or a graph node between them. */
#define MAX_LINK_HOPS 4

int
ia_is_instance_dict(const ia_walk *w, uint32_t entry)
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
           !ia_is_instance_dict(w, entry);
}

void
ia_parting_free(ia_parting *s)
{
    free(s->path);
    free(s->own);
    free(s->newest);
    free(s->oldest);
    free(s->low);
    free(s->high);
    free(s->score);
    free(s->within);
    free(s->level);
    free(s->run);
    free(s->head);
    free(s->repeats);
    free(s->longest);
    free(s->count);
    free(s->best);
    free(s->weight);
    free(s->branch);
    free(s->root);
    free(s->above);
    free(s->depth);
}

/* calloc throughout: what no target's path touches stays untouched pages. */
static int
allocate(ia_parting *s, size_t n)
{
    uint32_t **arrays[] = {&s->own,     &s->newest,  &s->oldest, &s->score,
                           &s->run,     &s->head,    &s->best,   &s->weight,
                           &s->root,    &s->above,   &s->depth,  &s->level,
                           &s->low,     &s->high,    &s->count,
                           &s->repeats, &s->longest, &s->within};
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
find_paths(const ia_walk *w, const ia_member *targets, uint32_t n, ia_parting *s)
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
trace_paths(const ia_walk *w, ia_parting *s)
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
    uint32_t x = ((const ia_stretch *)a)->newest;
    uint32_t y = ((const ia_stretch *)b)->newest;
    return (x > y) - (x < y);
}

static int
is_of_the_same_lines(const ia_stretch *branch, uint32_t n)
{
    const ia_stretch *first = NULL;
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

/* How many parts the branches tell apart: each counts for the newest part in
 * it. */
static uint32_t
count_parts(ia_stretch *branch, uint32_t n)
{
    uint32_t distinct = 0;
    qsort(branch, n, sizeof *branch, by_newest);
    for (uint32_t i = 0; i < n; i++)
        distinct += i == 0 || branch[i].newest != branch[i - 1].newest;
    return distinct;
}

static ia_stretch
stretch_of(const ia_walk *w, const ia_parting *s, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    int nested = s->score[entry] >= 2 && IA_TAG(ref) == IA_TAG_OBJECT &&
                 ia_kind_of(Py_TYPE((PyObject *)ref)) != IA_KIND_TENSOR;
    int container = ia_entry_is_container(w, entry);
    int owner = IA_TAG(ref) == IA_TAG_OBJECT && !container &&
                ia_kind_of(Py_TYPE((PyObject *)ref)) == IA_KIND_PLAIN;
    return (ia_stretch){s->oldest[entry], s->newest[entry], s->score[entry],
                        s->low[entry],    s->high[entry],   nested,
                        container,        owner,            s->count[entry]};
}

enum { EACH_FOR_ITSELF, ALL_OF_THEM, NONE_OF_THEM };

/* Has none of the branches begun in the last third of the time, where `parts` is
 * 3, or in its later half, where it is 2? */
static int
is_complete(const ia_stretch *branch, uint32_t n, uint32_t parts)
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
    return parts * (uint64_t)(last - last_begun) > last - first;
}

/* Fewer that follow one another do so by chance: what a window of the newest
 * leads to first, and what it has let go of, are two. */
#define LEAST_ROW 3

/* Were they filled one after another?  They are sorted by their newest. */
static int
is_a_row(const ia_stretch *branch, uint32_t n)
{
    if (n < LEAST_ROW)
        return 0;
    for (uint32_t i = 1; i < n; i++)
        if (branch[i].oldest < branch[i - 1].newest)
            return 0;
    return 1;
}

/* Owners of what grows, side by side: each of them has something that parts
 * by itself, a chain of its own, maybe, more on the average than there are of
 * them; they grow in turns, and none has come for long.  What leads to them
 * parts nothing.  They are sorted by their newest. */
static int
are_owners(const ia_parting *s, uint32_t n)
{
    const ia_stretch *branch = s->branch;
    uint64_t total = 0;
    int in_turns = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += branch[i].count;
        if (!branch[i].owner || branch[i].oldest == branch[i].newest)
            return 0;
        in_turns |= i > 0 && branch[i].oldest < branch[i - 1].newest;
    }
    return n >= 2 && in_turns && s->dated && total > (uint64_t)n * n &&
           is_complete(branch, n, 3);
}

/* Parts of the later half of the time that lie in a branch, if it has them at
 * an even pace. */
static double
later_parts(const ia_stretch *b, uint32_t half)
{
    uint32_t from = b->oldest > half ? b->oldest : half;
    if (b->newest < from)
        return 0;
    return (double)b->count * (b->newest - from + 1) /
           (b->newest - b->oldest + 1);
}

/* Have the branches that were there at half time got more since than those
 * that came later have? */
static int
older_ones_grow(const ia_stretch *branch, uint32_t n)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        first = branch[i].oldest < first ? branch[i].oldest : first;
        last = branch[i].newest > last ? branch[i].newest : last;
    }
    uint32_t half = first + (last - first) / 2;
    double more = 0;
    for (uint32_t i = 0; i < n; i++)
        more += (branch[i].oldest <= half ? 1 : -1) *
                later_parts(&branch[i], half);
    return more > 0;
}

/* Of its branches that are containers, each one part at least. */
static uint32_t
parts_within(const ia_stretch *branch, uint32_t n)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        if (branch[i].container)
            total += branch[i].score > 1 ? branch[i].score : 1;
    return total;
}

/* A dict of lists: do they grow, or does it?  All of them are holders or none
 * is.  They are where no key has come for long, or where they grow beside each
 * other, and one of them parts more on the average than there are or those
 * that are old grow most. */
static uint32_t
level_of(const ia_parting *s, uint32_t n, uint32_t score)
{
    const ia_stretch *branch = s->branch;
    uint64_t containers = 0, nested = 0, total = parts_within(branch, n);
    for (uint32_t i = 0; i < n; i++) {
        nested += (uint64_t)branch[i].nested;
        containers += (uint64_t)branch[i].container;
    }
    if (nested < 2 || containers < 2 || !is_of_the_same_lines(branch, n))
        return EACH_FOR_ITSELF;
    int row = s->dated && is_a_row(branch, n);
    int grow = total > containers * score ||
               (s->dated && older_ones_grow(branch, n));
    /* The third of a row may be as long as each before it, and the next one
     * about to come. */
    return (grow && !row) ||
                   (score < total && is_complete(branch, n, row ? 2 : 3))
               ? ALL_OF_THEM
               : NONE_OF_THEM;
}

static void
note_lines(ia_parting *s, uint32_t entry, uint32_t low, uint32_t high)
{
    if (s->low[entry] == 0 || low < s->low[entry])
        s->low[entry] = low;
    if (high > s->high[entry])
        s->high[entry] = high;
}

static void
note_part(ia_parting *s, uint32_t entry, uint32_t oldest, uint32_t newest)
{
    if (newest > s->newest[entry])
        s->newest[entry] = newest;
    if (s->oldest[entry] == 0 || oldest < s->oldest[entry])
        s->oldest[entry] = oldest;
}

/* The children of one entry stand side by side in the queue: scanning it
 * backwards meets all branches of a parent before the parent itself. */
static void
score_entries(const ia_walk *w, ia_parting *s)
{
    uint32_t i = s->npath;
    while (i > 0) {
        uint32_t parent = w->queue[s->path[i - 1]].parent, n = 0;
        for (; i > 0 && w->queue[s->path[i - 1]].parent == parent; i--) {
            uint32_t entry = s->path[i - 1];
            if (s->own[entry])
                note_part(s, entry, s->own[entry], s->own[entry]);
            if (parent == IA_NO_ENTRY || s->newest[entry] == 0)
                continue;
            s->branch[n++] = stretch_of(w, s, entry);
            note_part(s, parent, s->oldest[entry], s->newest[entry]);
            note_lines(s, parent, s->low[entry], s->high[entry]);
            s->count[parent] += s->count[entry];
        }
        if (n == 0)
            continue;
        if (s->own[parent])
            s->branch[n++] = (ia_stretch){.oldest = s->own[parent],
                                          .newest = s->own[parent],
                                          .score = 1};
        /* A parent's children may stand in two runs (a second root pass). */
        uint32_t score = count_parts(s->branch, n);
        if (score >= 2 && are_owners(s, n))
            score = 1;
        if (score <= s->score[parent])
            continue;
        s->score[parent] = score;
        s->level[parent] = level_of(s, n, score);
        s->within[parent] = s->level[parent] == NONE_OF_THEM
                                ? parts_within(s->branch, n)
                                : 0;
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

/* The link above an entry, or IA_NO_ENTRY. */
static uint32_t
link_above(const ia_walk *w, const ia_parting *s, uint32_t i)
{
    uint32_t up = w->queue[i].parent;
    for (int hop = 0; hop < MAX_LINK_HOPS && up != IA_NO_ENTRY; hop++) {
        if (s->score[up] >= 2 && w->queue[up].parent != IA_NO_ENTRY)
            return up;
        up = w->queue[up].parent;
    }
    return IA_NO_ENTRY;
}

static PyTypeObject *
type_of(const ia_walk *w, uint32_t i)
{
    uintptr_t ref = w->queue[i].ref;
    return IA_TAG(ref) == IA_TAG_OBJECT ? Py_TYPE((PyObject *)ref) : NULL;
}

/* Which links have one of their type for the next. */
static void
find_repeats(const ia_walk *w, ia_parting *s)
{
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at];
        uint32_t up = s->score[i] < 2 ? IA_NO_ENTRY : link_above(w, s, i);
        if (up != IA_NO_ENTRY && type_of(w, up) == type_of(w, i))
            s->repeats[up] = 1;
    }
}

/* Does a chain begin here, below an object that parts in two by chance: a
 * model with gradients, and a function that is wrapped again and again?  A
 * container has the chains that it leads to. */
static int
begins_below(const ia_walk *w, const ia_parting *s, uint32_t i, uint32_t up)
{
    PyTypeObject *here = type_of(w, i), *above = type_of(w, up);
    return here != NULL && above != NULL && here != above && s->repeats[i] &&
           !s->repeats[up] && !ia_entry_is_container(w, up);
}

static void
link_up(const ia_walk *w, ia_parting *s, uint32_t i)
{
    uint32_t up = link_above(w, s, i);
    if (up != IA_NO_ENTRY && !begins_below(w, s, i, up)) {
        s->run[i] = s->run[up] + 1;
        s->head[i] = s->head[up];
        return;
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

/* What its parent's level says of a container: it is the holder, or none. */
static uint32_t
level_at(const ia_walk *w, const ia_parting *s, uint32_t i)
{
    uint32_t parent = w->queue[i].parent;
    return parent == IA_NO_ENTRY || !ia_entry_is_container(w, i)
               ? EACH_FOR_ITSELF
               : s->level[parent];
}

/* Every link of a chain is as telling as the chain is long, as far as it parts
 * in two. */
static void
find_chains(const ia_walk *w, ia_parting *s)
{
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at];
        if (s->score[i] < 2 || is_place(w, i) ||
            level_at(w, s, i) != EACH_FOR_ITSELF)
            continue;
        link_up(w, s, i);
        if (s->score[i] == 2 && s->run[i] > s->longest[s->head[i]])
            s->longest[s->head[i]] = s->run[i];
    }
}

static void
choose_holders(const ia_walk *w, ia_parting *s)
{
    for (uint32_t at = 0; at < s->npath; at++) {
        uint32_t i = s->path[at], parent = w->queue[i].parent;
        s->best[i] = parent == IA_NO_ENTRY ? i : s->best[parent];
        s->weight[i] = parent == IA_NO_ENTRY ? 0 : s->weight[parent];
        if (level_at(w, s, i) == ALL_OF_THEM) {
            s->weight[i] = s->score[i] > 2 ? s->score[i] : 2;
            s->best[i] = i;
        }
        if (s->run[i] == 0)
            continue;
        if (s->score[i] > s->weight[i]) {
            s->weight[i] = s->score[i];
            s->best[i] = s->score[i] == 2 ? s->head[i] : i;
        }
        /* Beside it, what is in an item of its containers is as little as in
         * one of its own. */
        if (s->best[i] == i && s->within[i] > s->weight[i])
            s->weight[i] = s->within[i];
        uint32_t length = s->longest[s->head[i]];
        if (s->run[i] > length)
            length = s->run[i];
        if (length > s->weight[i]) {
            s->weight[i] = length;
            s->best[i] = s->head[i];
        }
    }
}

int
ia_parting_find(const ia_walk *w, const ia_member *members, uint32_t n,
                ia_parting *s)
{
    if (allocate(s, w->count) < 0 || find_paths(w, members, n, s) < 0)
        return -1;
    s->dated = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t entry = w->storages->items[members[i].storage].entry;
        if (members[i].alone)
            continue;
        s->dated &= members[i].part == members[i].generation;
        if (members[i].part + 1 > s->own[entry])
            s->own[entry] = members[i].part + 1;
        note_lines(s, entry, members[i].site + 1, members[i].site + 1);
        s->count[entry]++;
    }
    trace_paths(w, s);
    score_entries(w, s);
    find_repeats(w, s);
    find_chains(w, s);
    choose_holders(w, s);
    return 0;
}
