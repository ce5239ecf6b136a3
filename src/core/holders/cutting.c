/* Which references are cut to measure what a holder keeps. */

#include "../base/compat.h"
#include "../base/array.h"
#include "cutting.h"
#include "parting.h"

#include <stdlib.h>

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

/* -- what leads from a holder to the same by a way round --------------------- */

/* `self.parent` is `self.token.old_value`, too: who gives up the one without
 * the other keeps all that it leads to. */
typedef struct {
    ia_holders *k;
    uint32_t group, holder;
    ia_ptrmap lost; /* what the holder loses */
    PyObject *item; /* another of what it refers to */
    int failed;
} detours;

static int
cut_detour(PyObject *op, void *arg)
{
    detours *d = arg;
    if (op != NULL &&
        ia_ptrmap_get(&d->lost, (uintptr_t)op) != IA_PTRMAP_NONE &&
        add_cut(d->k, (ia_cut){(uintptr_t)d->item, (uintptr_t)op, d->group,
                               d->holder}) < 0)
        d->failed = 1;
    return d->failed;
}

static int
look_for_detours(PyObject *op, void *arg)
{
    detours *d = arg;
    if (op == NULL || !ia_is_gc(op) || Py_TYPE(op)->tp_traverse == NULL ||
        !ia_can_traverse(op) ||
        ia_ptrmap_get(&d->lost, (uintptr_t)op) != IA_PTRMAP_NONE)
        return 0;
    d->item = op;
    return Py_TYPE(op)->tp_traverse(op, cut_detour, d);
}

/* Those of one holder, by its cuts that stand side by side.  0 or -1. */
static int
cut_detours_of(const ia_walk *w, ia_holders *k, uint32_t from, uint32_t to)
{
    detours d = {k, k->cuts[from].group, k->cuts[from].entry, {0}, NULL, 0};
    uintptr_t ref = w->queue[d.holder].ref;
    PyObject *op = (PyObject *)ref;
    if (IA_TAG(ref) != IA_TAG_OBJECT || Py_TYPE(op)->tp_traverse == NULL ||
        !ia_can_traverse(op))
        return 0;
    for (uint32_t i = from; i < to && !d.failed; i++)
        if (IA_TAG(k->cuts[i].child) == IA_TAG_OBJECT)
            d.failed = ia_ptrmap_set(&d.lost, k->cuts[i].child, 1) < 0;
    if (!d.failed && d.lost.used > 0)
        Py_TYPE(op)->tp_traverse(op, look_for_detours, &d);
    ia_ptrmap_free(&d.lost);
    return d.failed ? -1 : 0;
}

static int
cut_detours(const ia_walk *w, ia_holders *k, uint32_t from)
{
    uint32_t end = k->ncuts, next;
    for (uint32_t i = from; i < end; i = next) {
        for (next = i + 1;
             next < end && k->cuts[next].entry == k->cuts[i].entry; next++)
            ;
        if (cut_detours_of(w, k, i, next) < 0)
            return -1;
    }
    return 0;
}

int
ia_holders_cut(const ia_walk *w, const ia_groups *groups, ia_holders *out)
{
    ia_ptrmap by_edge = {0};
    int result = -1;
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
    uint32_t first = out->ncuts;
    if (cut_edges(w, groups, out, &by_edge) < 0)
        goto done;
    result = cut_detours(w, out, first);
done:
    ia_ptrmap_free(&by_edge);
    return result;
}
