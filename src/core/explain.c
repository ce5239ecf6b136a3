/* Who holds these objects.
 *
 * The walk notes every reference into a target, not the first alone.  The
 * reference that the caller handed in, and the caller's own variables, are
 * put last: they are how the object got here, not why it is alive.
 */

#include "compat.h"
#include "cuts.h"
#include "describe.h"
#include "edges.h"
#include "explain.h"
#include "frames.h"
#include "roots.h"
#include "unrooted.h"

#include <stdlib.h>

typedef struct {
    uint32_t entry; /* what refers to the target */
    int caller;     /* a variable of the caller */
} referrer;

typedef struct {
    PyObject *op; /* borrowed from the tuple */
    referrer *referrers; /* owned */
    uint32_t count;
    uint32_t crowd; /* entry of the crowd it is a member of, or NONE */
} target;

typedef struct {
    ia_walk w;
    ia_storages storages;
    ia_roots roots;
    target *targets;
    Py_ssize_t ntargets;
    ia_ptrmap index;
    uintptr_t caller;       /* ref of the calling frame, or 0 */
    uintptr_t caller_names; /* its namespace when it is a module's */
    int in_walk;
} question;

/* -- the walk ------------------------------------------------------------ */

static void
note_reference(ia_walk *w, PyObject *op, void *arg)
{
    question *q = arg;
    uint32_t i = ia_ptrmap_get(&q->index, (uintptr_t)op);
    if (i == IA_PTRMAP_NONE || w->parent == IA_NO_ENTRY)
        return;
    target *t = &q->targets[i];
    if (IA_TAG(w->queue[w->parent].ref) == IA_TAG_CROWD) {
        t->crowd = w->parent;
        return;
    }
    if (t->count == IA_MAX_REFERRERS ||
        (t->count > 0 && t->referrers[t->count - 1].entry == w->parent))
        return;
    uintptr_t ref = w->queue[w->parent].ref;
    t->referrers[t->count++] = (referrer){
        w->parent, ref == q->caller || ref == q->caller_names};
}

/* The innermost frame that is not ours. */
static void
find_caller(question *q)
{
    ia_frame *f = ia_frame_top(PyThreadState_Get());
    for (; f != NULL; f = ia_frame_back(f)) {
        if (ia_frame_is_own(f))
            continue;
        q->caller = (uintptr_t)f | IA_TAG_FRAME;
        q->caller_names = (uintptr_t)ia_frame_locals(f);
        return;
    }
}

static int
read_targets(question *q, PyObject *objects)
{
    q->ntargets = PyTuple_GET_SIZE(objects);
    q->targets = calloc((size_t)q->ntargets + 1, sizeof *q->targets);
    if (q->targets == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        target *t = &q->targets[i];
        t->op = PyTuple_GET_ITEM(objects, i);
        t->crowd = IA_NO_ENTRY;
        t->referrers = calloc(IA_MAX_REFERRERS, sizeof *t->referrers);
        if (t->referrers == NULL ||
            ia_ptrmap_set(&q->index, (uintptr_t)t->op, (uint32_t)i) < 0)
            return -1;
    }
    return 0;
}

static int
has_answer(const target *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (!t->referrers[i].caller)
            return 1;
    return 0;
}

static int
all_answered(const question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (!has_answer(&q->targets[i]))
            return 0;
    return 1;
}

/* What nothing at all leads to is there for its caller alone. */
static int
seed_the_rest(question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (ia_walk_seed_alone(&q->w, &q->roots, q->targets[i].op,
                               IA_ROOT_CALLER) < 0)
            return -1;
    return 0;
}

static int
walk(question *q, PyObject *objects)
{
    if (ia_roots_collect(&q->roots) < 0)
        return -1;
    if (ia_walk_init(&q->w, &q->storages, &q->roots) < 0)
        return -1;
    q->w.on_reference = note_reference;
    q->w.on_reference_arg = q;
    if (ia_the_framework != NULL) {
        q->in_walk = 1;
        q->w.graph = ia_the_framework->walk_begin();
    }
    find_caller(q);
    ia_walk_hide(&q->w, objects);
    ia_walk_from_roots(&q->w);
    if (!all_answered(q) && ia_walk_unrooted(&q->w, &q->roots, objects) < 0)
        return -1;
    if (seed_the_rest(q) < 0)
        return -1;
    return q->w.failed ? -1 : 0;
}

static void
finish(question *q)
{
    if (q->in_walk)
        ia_the_framework->walk_end();
    ia_walk_free(&q->w);
    ia_storages_free(&q->storages);
    ia_roots_free(&q->roots);
    ia_ptrmap_free(&q->index);
    for (Py_ssize_t i = 0; q->targets != NULL && i < q->ntargets; i++)
        free(q->targets[i].referrers);
    free(q->targets);
}

/* -- the answer ---------------------------------------------------------- */

/* The path over one referrer; the entry that it ends in is made for it. */
static PyObject *
build_path(question *q, const target *t, const referrer *r)
{
    uint32_t last = ia_walk_append(&q->w, (uintptr_t)t->op, r->entry);
    if (last == IA_NO_ENTRY)
        return PyErr_NoMemory();
    return ia_path_build(&q->w, last, IA_NO_ENTRY, NULL);
}

static int
append_paths(question *q, const target *t, int caller, Py_ssize_t most,
             PyObject *list)
{
    for (uint32_t i = 0; i < t->count && PyList_GET_SIZE(list) < most; i++) {
        if (t->referrers[i].caller != caller)
            continue;
        PyObject *path = build_path(q, t, &t->referrers[i]);
        if (path == NULL || PyList_Append(list, path) < 0) {
            Py_XDECREF(path);
            return -1;
        }
        Py_DECREF(path);
    }
    return 0;
}

static PyObject *
build_paths(question *q, const target *t, Py_ssize_t most)
{
    PyObject *list = PyList_New(0);
    if (list == NULL || append_paths(q, t, 0, most, list) < 0 ||
        (PyList_GET_SIZE(list) == 0 &&
         append_paths(q, t, 1, most, list) < 0))
        Py_CLEAR(list);
    return list;
}

/* Root of the entry in whose tree the target lies. */
static const ia_root *
root_of(const question *q, uint32_t entry)
{
    while (q->w.queue[entry].parent != IA_NO_ENTRY)
        entry = q->w.queue[entry].parent;
    return &q->roots.items[q->w.queue[entry].root];
}

/* The member of a crowd under which the target lies, or it itself. */
static uintptr_t
cycle_member(const question *q, const target *t)
{
    uintptr_t member = (uintptr_t)t->op;
    uint32_t entry = IA_NO_ENTRY;
    for (uint32_t i = t->count; i-- > 0;)
        if (!t->referrers[i].caller)
            entry = t->referrers[i].entry;
    for (; entry != IA_NO_ENTRY; entry = q->w.queue[entry].parent)
        if (IA_TAG(q->w.queue[entry].ref) != IA_TAG_CROWD)
            member = q->w.queue[entry].ref;
    return member;
}

/* The best answer decides: a path, else a cycle, else C++ alone. */
static const char *
verdict_of(const question *q, const target *t, uintptr_t *cycle)
{
    const ia_root *root =
        t->crowd == IA_NO_ENTRY ? NULL : root_of(q, t->crowd);
    for (uint32_t i = 0; i < t->count; i++) {
        const ia_root *r = root_of(q, t->referrers[i].entry);
        if (t->referrers[i].caller)
            continue;
        if (r->kind != IA_ROOT_CYCLE && r->kind != IA_ROOT_NATIVE)
            return "held";
        root = r;
    }
    if (root == NULL)
        return "held"; /* by a variable of the caller's */
    *cycle = cycle_member(q, t);
    switch (root->kind) {
    case IA_ROOT_CYCLE:
        return "cycle";
    case IA_ROOT_NATIVE:
        return "native";
    case IA_ROOT_CALLER:
        *cycle = 0;
        return "free";
    default:
        return "held";
    }
}

/* What would be freed with each target: nothing else may hold what it
 * holds.  0, or -1 with an exception set. */
static int
measure(const question *q, ia_cost *costs)
{
    ia_cut *cuts = calloc((size_t)q->ntargets, sizeof *cuts);
    if (cuts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        cuts[i] = (ia_cut){(uintptr_t)q->targets[i].op, 0, (uint32_t)i,
                           IA_NO_ENTRY};
    int bad = ia_cuts_measure(&q->w, cuts, (uint32_t)q->ntargets,
                              (uint32_t)q->ntargets, costs);
    free(cuts);
    if (bad < 0)
        PyErr_NoMemory();
    return bad;
}

static PyObject *
build_tensor(PyObject *op)
{
    ia_storage s = {0};
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
        ia_the_framework->storage_of(op, &s);
    return ia_tensor_build((uintptr_t)op, s.device, s.bytes);
}

static PyObject *
build_target(question *q, const target *t, Py_ssize_t most,
             const ia_cost *cost)
{
    uintptr_t cycle = 0;
    const char *verdict = verdict_of(q, t, &cycle);
    char type[128];
    ia_ref_type_name((uintptr_t)t->op, type, sizeof type);
    PyObject *paths = build_paths(q, t, most);
    PyObject *loop = NULL, *costs = NULL, *tensor = NULL;
    if (paths != NULL)
        loop = cycle ? ia_cycle_build(cycle, q->w.graph) : PyList_New(0);
    if (loop != NULL)
        costs = cost ? ia_cost_build(cost) : Py_NewRef(Py_None);
    if (costs != NULL)
        tensor = build_tensor(t->op);
    if (tensor != NULL)
        return Py_BuildValue(
            "{s:s,s:s,s:N,s:N,s:N,s:N,s:I,s:n}", "type", type, "verdict",
            verdict, "paths", paths, "cycle", loop, "cost", costs, "tensor",
            tensor, "referrers", t->count, "refcount",
            Py_REFCNT(t->op) - 1);
    Py_XDECREF(paths);
    Py_XDECREF(loop);
    Py_XDECREF(costs);
    return NULL;
}

static PyObject *
build(question *q, Py_ssize_t most, int cost)
{
    ia_cost *costs = NULL;
    PyObject *list = NULL;
    if (cost) {
        costs = calloc((size_t)q->ntargets + 1, sizeof *costs);
        if (costs == NULL)
            return PyErr_NoMemory();
        if (measure(q, costs) < 0)
            goto done;
    }
    list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < q->ntargets; i++) {
        PyObject *item = build_target(q, &q->targets[i], most,
                                      costs ? &costs[i] : NULL);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
done:
    free(costs);
    return list;
}

PyObject *
ia_explain(PyObject *objects, Py_ssize_t paths, int cost)
{
    question q = {0};
    PyObject *result = NULL;
    int collecting = PyGC_Disable();
    ia_kinds_forget();
    if (read_targets(&q, objects) == 0 && walk(&q, objects) == 0)
        result = build(&q, paths, cost);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    finish(&q);
    if (collecting)
        PyGC_Enable();
    return result;
}

/* -- instances of a class ------------------------------------------------ */

PyObject *
ia_instances(PyTypeObject *type, Py_ssize_t most)
{
    question q = {0};
    PyObject *list = NULL, *none = PyTuple_New(0);
    Py_ssize_t found = 0;
    int collecting = PyGC_Disable();
    ia_kinds_forget();
    if (none == NULL || walk(&q, none) < 0 ||
        ia_walk_unrooted(&q.w, &q.roots, none) < 0) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        goto done;
    }
    list = PyList_New(0);
    for (uint32_t i = 0; list && i < q.w.count; i++) {
        uintptr_t ref = q.w.queue[i].ref;
        if (IA_TAG(ref) != IA_TAG_OBJECT ||
            !PyType_IsSubtype(Py_TYPE((PyObject *)ref), type))
            continue;
        if (found++ >= most)
            continue;
        PyObject *path = ia_path_build(&q.w, i, IA_NO_ENTRY, NULL);
        if (path == NULL || PyList_Append(list, path) < 0)
            Py_CLEAR(list);
        Py_XDECREF(path);
    }
done:
    finish(&q);
    Py_XDECREF(none);
    if (collecting)
        PyGC_Enable();
    return list ? Py_BuildValue("(nN)", found, list) : NULL;
}
