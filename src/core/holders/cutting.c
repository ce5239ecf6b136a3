/* Holders with all that hangs on them, and how to cut them off. */

#include "../base/compat.h"
#include "../base/array.h"
#include "cutting.h"
#include "parting.h"

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
    k->took = k->ended - k->began + 1;
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
    k->began = other->began < k->began ? other->began : k->began;
    k->ended = other->ended > k->ended ? other->ended : k->ended;
    k->took += other->took;
    return 0;
}

/* Too many to be told singly: the largest of each sort stands for all. */
static int
join_sorts(const ia_walk *w, const ia_groups *groups, ia_holders *out)
{
    ia_ptrmap first = {0};
    uint32_t kept = 0;
    int result = -1;
    for (uint32_t i = 0; i < out->count; i++) {
        ia_holder k = out->items[i];
        k.sort = sort_of(w, groups, &k) | 1;
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

static int
list_holders(const ia_walk *w, const ia_groups *groups,
             const ia_wanted *wanted, uint32_t most, ia_holders *out)
{
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
    if (out->count > most && join_sorts(w, groups, out) < 0)
        return -1;
    for (; out->count > most; out->count--)
        out->left_out += 1 + out->items[out->count - 1].others;
    return 0;
}

int
ia_cut_add(ia_cut **cuts, uint32_t *capacity, uint32_t *count, ia_cut cut)
{
    if (IA_ROOM(*cuts, *capacity, *count + 1) < 0)
        return -1;
    (*cuts)[(*count)++] = cut;
    return 0;
}

static int
add_cut(ia_holders *k, ia_cut cut)
{
    return ia_cut_add(&k->cuts, &k->cuts_capacity, &k->ncuts, cut);
}

int
ia_is_value(uintptr_t ref)
{
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return 0;
    int kind = ia_kind_of(Py_TYPE((PyObject *)ref));
    return kind == IA_KIND_TENSOR || kind == IA_KIND_NDARRAY;
}

static int
stands_for_itself(uintptr_t ref)
{
    return IA_TAG(ref) == IA_TAG_NODE || IA_TAG(ref) == IA_TAG_MEMORY ||
           ia_is_value(ref);
}

/* -- variables that name a container's newest item ------------------------ */

/* A container's items at either end, as it shows them: one is the newest. */
#define END_ITEMS 4

typedef struct {
    PyObject *first[END_ITEMS], *last[END_ITEMS]; /* borrowed */
    size_t count;
} end_items;

static int
note_item(PyObject *op, void *arg)
{
    end_items *ends = arg;
    if (op == NULL ||
        (!ia_is_gc(op) && ia_kind_of(Py_TYPE(op)) == IA_KIND_PLAIN))
        return 0;
    if (ends->count < END_ITEMS)
        ends->first[ends->count] = op;
    ends->last[ends->count++ % END_ITEMS] = op;
    return 0;
}

static int
is_end_item(const end_items *ends, PyObject *op)
{
    for (size_t i = 0; i < END_ITEMS; i++)
        if (op == ends->first[i] || op == ends->last[i])
            return op != NULL;
    return 0;
}

/* What is cut off besides the holder itself. */
typedef struct {
    const ia_walk *w;
    ia_holders *k;
    uint32_t group, holder;
    end_items ends;
} names;

static int
cut_name(const names *n, uintptr_t scope, PyObject *value)
{
    uintptr_t item = (uintptr_t)value | IA_TAG_OBJECT;
    if (!is_end_item(&n->ends, value) || item == n->w->queue[n->holder].ref)
        return 0;
    return add_cut(n->k, (ia_cut){scope, item, n->group, n->holder});
}

static int
cut_names_of_module(const names *n, uintptr_t dict)
{
    PyObject *name, *value;
    Py_ssize_t pos = 0;
    int result = 0;
    while (result == 0 && PyDict_Next((PyObject *)dict, &pos, &name, &value))
        result = cut_name(n, dict, value);
    return result;
}

static int
cut_names_of_frame(const names *n, uintptr_t ref)
{
    ia_frame *frame = (ia_frame *)IA_ADDRESS(ref);
    int result = 0;
    for (int i = 0; result == 0 && i < ia_frame_slots(frame); i++)
        result = cut_name(n, ref, ia_frame_slot(frame, i));
    return result;
}

/* `history.append(state)` in a loop: `state` names the newest item until the
 * next turn makes another.  It keeps nothing for good, yet with a graph that
 * reaches back it would be charged with all that the container holds. */
static int
cut_names(const ia_walk *w, ia_holders *k, uint32_t i, uint32_t holder)
{
    names n = {.w = w, .k = k, .group = i, .holder = holder};
    PyObject *op = (PyObject *)w->queue[holder].ref;
    int result = 0;
    if (Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op))
        Py_TYPE(op)->tp_traverse(op, note_item, &n.ends);
    for (uint32_t r = 0; r < w->roots->count && result == 0; r++) {
        const ia_root *root = &w->roots->items[r];
        if (!root->user || n.ends.count == 0)
            continue;
        if (root->kind == IA_ROOT_MODULE)
            result = cut_names_of_module(&n, root->ref);
        else if (root->kind == IA_ROOT_FRAME)
            result = cut_names_of_frame(&n, root->ref);
    }
    return result;
}

/* -- variables and attributes that name any item ------------------------------ */

/* `self.best = loss` for one of `self.losses`: the walk has met it there. */
typedef struct {
    const ia_walk *w;
    ia_holders *k;
    ia_ptrmap of_site; /* site + 1 -> holder, a container */
    ia_ptrmap listed;  /* holder + 1: its items are */
    ia_ptrmap items;   /* item -> holder */
    uint32_t holder;
    int failed;
    ia_cut *cuts; /* owned; of items that have such a name */
    uint32_t ncuts, capacity;
    uint32_t named[IA_MAX_CUT_GROUPS]; /* by holder: how many of its have */
} named_items;

/* A program has few names for the items of one container; more are attributes
 * of objects that another container has, as a window. */
#define MOST_NAMES 4

static int
list_item(PyObject *op, void *arg)
{
    named_items *n = arg;
    if (op != NULL && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR &&
        ia_ptrmap_set(&n->items, (uintptr_t)op, n->holder) < 0)
        n->failed = 1;
    return n->failed;
}

static int
list_items(named_items *n, uint32_t holder)
{
    PyObject *op = (PyObject *)n->w->queue[n->k->items[holder].entry].ref;
    int added = ia_ptrmap_add(&n->listed, (uintptr_t)holder + 1, 0);
    if (added == 1 && Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op)) {
        n->holder = holder;
        Py_TYPE(op)->tp_traverse(op, list_item, n);
    }
    return added < 0 || n->failed ? -1 : 0;
}

static int
list_containers(named_items *n, const ia_groups *groups)
{
    for (uint32_t i = 0; i < n->k->count; i++) {
        const ia_holder *k = &n->k->items[i];
        if (k->parts < 2 || !ia_entry_is_container(n->w, k->entry))
            continue;
        for (uint32_t g = k->first; g < k->first + k->ngroups; g++) {
            uintptr_t key = (uintptr_t)groups->items[g].site + 1;
            if (ia_ptrmap_get(&n->of_site, key) == IA_PTRMAP_NONE &&
                ia_ptrmap_set(&n->of_site, key, i) < 0)
                return -1;
        }
    }
    return 0;
}

/* A variable or an attribute has one value; a container beside may have many
 * for a purpose. */
static int
has_one_value(const ia_walk *w, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    return w->queue[entry].parent == IA_NO_ENTRY
               ? IA_TAG(ref) != IA_TAG_CROWD
               : IA_TAG(ref) == IA_TAG_OBJECT && !stands_for_itself(ref) &&
                     !ia_entry_is_container(w, entry);
}

static int
cut_named_item(named_items *n, const ia_reached *r)
{
    const ia_entry *queue = n->w->queue;
    uint32_t up = r->entry == IA_NO_ENTRY ? IA_NO_ENTRY
                                          : queue[r->entry].parent;
    uint32_t holder = ia_ptrmap_get(&n->of_site, (uintptr_t)r->site + 1);
    if (up == IA_NO_ENTRY || holder == IA_PTRMAP_NONE ||
        n->k->items[holder].entry == up ||
        IA_TAG(queue[r->entry].ref) != IA_TAG_OBJECT ||
        !has_one_value(n->w, up))
        return 0;
    if (list_items(n, holder) < 0)
        return -1;
    PyObject *op = (PyObject *)queue[r->entry].ref;
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        ia_ptrmap_get(&n->items, (uintptr_t)op) != holder)
        return 0;
    void *node = ia_the_framework->grad_fn_of(op);
    ia_cut cut = {(uintptr_t)op, (uintptr_t)node | IA_TAG_NODE, holder,
                  n->k->items[holder].entry};
    if (node == NULL || n->named[holder]++ >= MOST_NAMES)
        return 0;
    return ia_cut_add(&n->cuts, &n->capacity, &n->ncuts, cut);
}

static int
add_named(named_items *n)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < n->ncuts; i++)
        if (n->named[n->cuts[i].group] <= MOST_NAMES)
            result = add_cut(n->k, n->cuts[i]);
    return result;
}

/* With a graph that leads back to the steps before it would be charged with
 * what the container holds, as in cut_names(): it keeps its value alone,
 * whatever names it besides. */
static int
cut_named_items(const ia_walk *w, const ia_groups *groups, ia_holders *k)
{
    named_items n = {.w = w, .k = k};
    int result = list_containers(&n, groups);
    for (uint32_t i = 0; result == 0 && w->graph && n.of_site.used > 0 &&
                         i < w->storages->count;
         i++)
        result = cut_named_item(&n, &w->storages->items[i]);
    if (result == 0)
        result = add_named(&n);
    free(n.cuts);
    ia_ptrmap_free(&n.of_site);
    ia_ptrmap_free(&n.listed);
    ia_ptrmap_free(&n.items);
    return result;
}

/* A container is emptied; a tensor loses the reference to itself; anything
 * else loses those of its references that lead to the storages. */
static int
cut_holder(const ia_walk *w, ia_holders *k, uint32_t i, uint32_t holder,
           ia_ptrmap *by_edge)
{
    const ia_entry *e = &w->queue[holder];
    if (stands_for_itself(e->ref)) {
        uintptr_t up = e->parent == IA_NO_ENTRY ? 0 : w->queue[e->parent].ref;
        return add_cut(k, (ia_cut){up, e->ref, i, holder});
    }
    int container = k->items[i].parts >= 2 &&
                    ia_entry_is_container(w, holder);
    if (IA_TAG(e->ref) == IA_TAG_CROWD || container) {
        if (add_cut(k, (ia_cut){e->ref, 0, i, holder}) < 0)
            return -1;
        return container ? cut_names(w, k, i, holder) : 0;
    }
    return ia_ptrmap_set(by_edge, (uintptr_t)holder + 1, i);
}

static int
cut_edges(const ia_walk *w, const ia_groups *groups, ia_holders *k,
          const ia_ptrmap *by_edge)
{
    for (uint32_t at = 0; by_edge->used && at < groups->npath; at++) {
        uint32_t i = groups->path[at], up = w->queue[i].parent;
        if (up == IA_NO_ENTRY)
            continue;
        uint32_t group = ia_ptrmap_get(by_edge, (uintptr_t)up + 1);
        if (group != IA_PTRMAP_NONE &&
            add_cut(k, (ia_cut){w->queue[up].ref, w->queue[i].ref, group,
                                up}) < 0)
            return -1;
    }
    return 0;
}

int
ia_holders_find(const ia_walk *w, const ia_groups *groups,
                const ia_wanted *wanted, uint32_t most, ia_holders *out)
{
    ia_ptrmap by_edge = {0};
    int result = -1;
    *out = (ia_holders){0};
    if (most > IA_MAX_CUT_GROUPS)
        most = IA_MAX_CUT_GROUPS;
    if (list_holders(w, groups, wanted, most, out) < 0)
        return -1;
    for (uint32_t i = 0; i < out->count; i++)
        if (cut_holder(w, out, i, out->items[i].entry, &by_edge) < 0)
            goto done;
    for (uint32_t i = 0; i < out->nothers; i++) {
        const ia_other *other = &out->others[i];
        if (other->told < out->count &&
            cut_holder(w, out, other->told, other->entry, &by_edge) < 0)
            goto done;
    }
    if (cut_named_items(w, groups, out) < 0)
        goto done;
    result = cut_edges(w, groups, out, &by_edge);
done:
    ia_ptrmap_free(&by_edge);
    return result;
}
