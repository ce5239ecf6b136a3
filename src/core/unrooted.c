/* Storages that no root reaches.
 *
 * The collector's own arithmetic, read-only: among the objects that no root
 * reached, take from each reference count the references that come from
 * inside.  What is left over comes from C code, from C++ (the autograd graph
 * holds tensors) or from the temporaries of a running call.
 */

#include "compat.h"
#include "edge_kinds.h"
#include "edges.h"
#include "unrooted.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject *op;        /* borrowed */
    Py_ssize_t outside;  /* references from outside the set */
    uint32_t before;     /* some member that refers to this one, or NONE */
} orphan;

typedef struct {
    const ia_walk *w;
    orphan *items;
    uint32_t count, capacity, current;
    ia_ptrmap index;
    int failed;
} orphans;

static void
gather(PyObject *op, void *arg)
{
    orphans *o = arg;
    if (o->failed || ia_bitmap_test(o->w->seen, (uintptr_t)op))
        return;
    if (o->count == o->capacity) {
        uint32_t bigger = o->capacity ? o->capacity * 2 : 256;
        orphan *moved = realloc(o->items, bigger * sizeof *moved);
        if (moved == NULL) {
            o->failed = 1;
            return;
        }
        o->items = moved;
        o->capacity = bigger;
    }
    if (ia_ptrmap_set(&o->index, (uintptr_t)op, o->count) < 0)
        o->failed = 1;
    else
        o->items[o->count++] =
            (orphan){op, Py_REFCNT(op), IA_PTRMAP_NONE};
}

static int
take_off(PyObject *op, void *arg)
{
    orphans *o = arg;
    uint32_t i = op ? ia_ptrmap_get(&o->index, (uintptr_t)op)
                    : IA_PTRMAP_NONE;
    if (i == IA_PTRMAP_NONE)
        return 0;
    o->items[i].outside--;
    if (o->items[i].before == IA_PTRMAP_NONE)
        o->items[i].before = o->current;
    return 0;
}

static void
take_off_all(orphans *o)
{
    for (o->current = 0; o->current < o->count; o->current++) {
        PyObject *op = o->items[o->current].op;
        if (Py_TYPE(op)->tp_traverse != NULL)
            Py_TYPE(op)->tp_traverse(op, take_off, o);
    }
}

static void
take_off_handed(orphans *o, PyObject *handed)
{
    for (Py_ssize_t i = 0; handed && i < PyTuple_GET_SIZE(handed); i++) {
        uint32_t at = ia_ptrmap_get(
            &o->index, (uintptr_t)PyTuple_GET_ITEM(handed, i));
        if (at != IA_PTRMAP_NONE)
            o->items[at].outside--;
    }
}

static int
is_tensor(PyObject *op)
{
    return ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR;
}

int
ia_walk_seed_alone(ia_walk *w, ia_roots *roots, PyObject *op,
                   ia_root_kind kind)
{
    char type[100], name[120];
    if (ia_bitmap_test(w->seen, (uintptr_t)op))
        return 0;
    ia_ref_type_name((uintptr_t)op, type, sizeof type);
    snprintf(name, sizeof name, "<%s>", type);
    if (ia_roots_add(roots, kind, (uintptr_t)op, 0, name) == NULL) {
        PyErr_Clear();
        return -1;
    }
    ia_walk_seed(w, (uintptr_t)op, roots->count - 1);
    /* One at a time: a later one may hang on an earlier one. */
    ia_walk_run(w);
    return 0;
}

static int
seed_outside(ia_walk *w, ia_roots *roots, const orphans *o, int tensors)
{
    for (uint32_t i = 0; i < o->count; i++) {
        const orphan *item = &o->items[i];
        if (item->outside <= 0 || is_tensor(item->op) != tensors)
            continue;
        if (ia_walk_seed_alone(w, roots, item->op,
                               tensors ? IA_ROOT_NATIVE
                                       : IA_ROOT_OUTSIDE) < 0)
            return -1;
    }
    return 0;
}

/* Going back along referrers from an object whose references all come from
 * inside must meet some object twice: that one is on a cycle.  NULL where the
 * way back ends at something that only the caller of ours holds. */
static PyObject *
on_cycle(const orphans *o, uint32_t start)
{
    uint32_t slow = start, fast = start;
    do {
        slow = o->items[slow].before;
        for (int i = 0; i < 2 && fast != IA_PTRMAP_NONE; i++)
            fast = o->items[fast].before;
    } while (slow != IA_PTRMAP_NONE && fast != IA_PTRMAP_NONE &&
             slow != fast);
    return slow == IA_PTRMAP_NONE || fast == IA_PTRMAP_NONE
               ? NULL
               : o->items[slow].op;
}

static int
seed_cycles(ia_walk *w, ia_roots *roots, const orphans *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        PyObject *op = o->items[i].op;
        op = ia_bitmap_test(w->seen, (uintptr_t)op) ? NULL : on_cycle(o, i);
        if (op != NULL &&
            ia_walk_seed_alone(w, roots, op, IA_ROOT_CYCLE) < 0)
            return -1;
    }
    return 0;
}

int
ia_walk_unrooted(ia_walk *w, ia_roots *roots, PyObject *handed)
{
    orphans o = {.w = w};
    int result = -1;
    ia_each_gc_object(gather, &o);
    if (o.failed)
        goto done;
    take_off_all(&o);
    take_off_handed(&o, handed);
    if (seed_outside(w, roots, &o, 0) < 0 ||
        seed_outside(w, roots, &o, 1) < 0 || seed_cycles(w, roots, &o) < 0)
        goto done;
    result = w->failed ? -1 : 0;
done:
    free(o.items);
    ia_ptrmap_free(&o.index);
    return result;
}

/* The shortest way from the root object back to itself. */
PyObject *
ia_cycle_build(uintptr_t root, int graph)
{
    ia_storages storages = {0};
    ia_roots roots = {0};
    ia_walk w;
    PyObject *result = NULL;
    if (ia_roots_add(&roots, IA_ROOT_CYCLE, root, 0, "") == NULL)
        return NULL;
    if (ia_walk_init(&w, &storages, &roots) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    w.graph = graph;
    /* Seeded without a mark: the walk stops where it meets the root again. */
    ia_walk_seed_unmarked(&w, root, 0);
    while (w.head < w.count && !w.failed) {
        if (w.head > 0 && w.queue[w.head].ref == root) {
            PyObject *path = ia_path_build(&w, w.head, IA_NO_ENTRY, NULL);
            if (path != NULL) {
                result = Py_NewRef(PyTuple_GET_ITEM(path, 3));
                Py_DECREF(path);
            }
            goto done;
        }
        ia_walk_step(&w);
    }
    result = PyList_New(0);
done:
    ia_walk_free(&w);
    ia_storages_free(&storages);
    ia_roots_free(&roots);
    return result;
}
