/* Who holds these objects: the answers. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/device_name.h"
#include "../base/errors.h"
#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../holders/retained.h"
#include "../names/path.h"
#include "../names/text.h"
#include "describe.h"
#include "elsewhere.h"
#include "explain.h"
#include "question.h"

#include <stdlib.h>

/* What the objects on the paths retain. */
typedef struct {
    ia_ways ways;
    ia_cut *aside; /* owned; the caller's own references */
} measured;

/* The paths to one target, and what lies on them: two lists. */
typedef struct {
    const measured *measured; /* NULL where it is not asked for */
    const ia_cost *cost;      /* of the target */
    PyObject *paths, *ways;   /* owned */
} answers;

/* Root of the entry in whose tree the target lies. */
static const ia_root *
root_of(const ia_question *q, uint32_t entry)
{
    return &q->roots.items[q->w.queue[ia_walk_root(&q->w, entry)].root];
}

/* By something that is there for more than the question. */
static int
is_held(const ia_question *q, uint32_t entry)
{
    return root_of(q, entry)->kind != IA_ROOT_CALLER;
}

/* By what a program names: what only a call in progress, garbage or C code
 * leads to has no owner that could be emptied. */
static int
is_named(const ia_question *q, uint32_t entry)
{
    return root_of(q, entry)->kind < IA_ROOT_OUTSIDE;
}

/* One group of ways: no variable is cut for one of the targets alone, so that
 * an object on the ways of several retains the same for each. */
#define ALL_TARGETS 0

/* What lies on one path; nothing where that was not measured. */
static PyObject *
build_ways(const ia_question *q, uint32_t referrer, const answers *a,
           PyObject *path, const uint32_t *objects)
{
    if (a->measured == NULL || !is_named(q, referrer))
        return PyList_New(0);
    return ia_ways_build(&a->measured->ways, ALL_TARGETS, objects,
                         PyList_GET_SIZE(PyTuple_GET_ITEM(path, 3)), a->cost);
}

/* The path over one referrer; the entry that it ends in is made for it. */
static int
append_path(ia_question *q, const ia_target *t, uint32_t referrer,
            const answers *a)
{
    uint32_t last = ia_walk_append(&q->w, (uintptr_t)t->op, referrer);
    uint32_t *objects = NULL;
    if (last == IA_NO_ENTRY)
        return ia_no_memory();
    PyObject *path =
        ia_path_trace(&q->w, last, IA_NO_ENTRY, NULL, &objects);
    PyObject *ways =
        path ? build_ways(q, referrer, a, path, objects) : NULL;
    int bad = ways == NULL || PyList_Append(a->paths, path) < 0 ||
              PyList_Append(a->ways, ways) < 0;
    PyMem_Free(objects);
    Py_XDECREF(path);
    Py_XDECREF(ways);
    return bad ? -1 : 0;
}

static int
any_held(const ia_question *q, const ia_target *t)
{
    int held = 0;
    for (uint32_t i = 0; i < t->count && !held; i++)
        held = is_held(q, t->referrers[i]);
    return held;
}

/* 0, or -1 with an exception. */
static int
append_paths(ia_question *q, const ia_target *t, Py_ssize_t most,
             int variable, const answers *a)
{
    int held = any_held(q, t);
    uint32_t caller =
        variable ? ia_question_variable_of(q, t->op) : IA_NO_ENTRY;
    if (caller != IA_NO_ENTRY && append_path(q, t, caller, a) < 0)
        return -1;
    for (uint32_t i = 0; i < t->count && PyList_GET_SIZE(a->paths) < most; i++)
        if ((!held || is_held(q, t->referrers[i])) &&
            append_path(q, t, t->referrers[i], a) < 0)
            return -1;
    return 0;
}

static int
build_paths(ia_question *q, const ia_target *t, Py_ssize_t most, int variable,
            answers *a)
{
    a->paths = PyList_New(0);
    a->ways = PyList_New(0);
    if (a->paths != NULL && a->ways != NULL &&
        append_paths(q, t, most, variable, a) == 0)
        return 0;
    Py_CLEAR(a->paths);
    Py_CLEAR(a->ways);
    return -1;
}

/* The member of a crowd under which the target lies, or it itself. */
static uintptr_t
cycle_member(const ia_question *q, const ia_target *t)
{
    uintptr_t member = (uintptr_t)t->op;
    uint32_t entry = t->count ? t->referrers[0] : IA_NO_ENTRY;
    for (; entry != IA_NO_ENTRY; entry = q->w.queue[entry].parent)
        if (IA_TAG(q->w.queue[entry].ref) != IA_TAG_CROWD)
            member = q->w.queue[entry].ref;
    return member;
}

typedef struct {
    const char *verdict;
    int forever;  /* the collector never frees it */
    int variable; /* nothing but a variable of the caller's */
    int on_cycle; /* the target itself is on it */
    PyObject *cycle; /* owned list */
} judgement;

/* Of objects that nothing but the targets leads to. */
static PyObject *
cycle_of(ia_question *q, uintptr_t ref)
{
    return ia_cycle_build(ref, q->w.graph, ia_question_held_by_others(q));
}

/* The cycle that the target is on, else the one that it hangs on. */
static PyObject *
find_cycle(ia_question *q, const ia_target *t, int *on_cycle)
{
    uintptr_t member = cycle_member(q, t);
    PyObject *cycle = cycle_of(q, (uintptr_t)t->op);
    *on_cycle = cycle != NULL && PyList_GET_SIZE(cycle) > 0;
    if (cycle == NULL || *on_cycle || member == (uintptr_t)t->op)
        return cycle;
    Py_DECREF(cycle);
    return cycle_of(q, member);
}

/* The best answer decides: a path, else a cycle, else C++ alone. */
static int
judge(ia_question *q, const ia_target *t, judgement *j)
{
    const ia_root *root =
        t->crowd == IA_NO_ENTRY ? NULL : root_of(q, t->crowd);
    *j = (judgement){.verdict = "held"};
    for (uint32_t i = 0; i < t->count; i++) {
        const ia_root *r = root_of(q, t->referrers[i]);
        if (root == NULL || r->kind != IA_ROOT_NATIVE)
            root = r;
        if (r->kind != IA_ROOT_CYCLE && r->kind != IA_ROOT_NATIVE)
            break;
    }
    switch (root ? root->kind : IA_ROOT_CALLER) {
    case IA_ROOT_CYCLE:
        j->verdict = "cycle";
        j->forever = root->forever;
        j->cycle = find_cycle(q, t, &j->on_cycle);
        break;
    case IA_ROOT_NATIVE:
        j->verdict = "native";
        break;
    case IA_ROOT_CALLER:
        j->variable = t->variables > 0;
        j->verdict = j->variable ? "held" : "free";
        /* Another target that leads to it may hide a cycle of its own. */
        if (q->ntargets > 1)
            j->cycle = cycle_of(q, (uintptr_t)t->op);
        j->on_cycle = j->cycle != NULL && PyList_GET_SIZE(j->cycle) > 0;
        if (j->on_cycle)
            j->verdict = "cycle";
        break;
    default:
        break;
    }
    if (j->cycle == NULL && !PyErr_Occurred())
        j->cycle = PyList_New(0);
    return j->cycle == NULL ? -1 : 0;
}

/* The block that an array shows, its own or its base's. */
static ia_storage
block_of_array(PyObject *op)
{
    ia_tensor_info info;
    ia_ndarray_describe(op, &info);
    info.storage.device = IA_DEVICE_NUMPY;
    return info.storage;
}

/* What the caller has of the targets is not why they are alive. */
static int
set_aside(const ia_question *q, measured *m)
{
    m->aside = calloc((size_t)q->ncuts + 1, sizeof *m->aside);
    if (m->aside == NULL)
        return ia_no_memory();
    for (uint32_t i = 0; i < q->ncuts; i++)
        if (q->cuts[i].child != 0)
            m->aside[m->ways.naside++] = q->cuts[i];
    m->ways.aside = m->aside;
    return 0;
}

/* The ways to be measured are those of the paths that will be told. */
static int
list_ways(const ia_question *q, Py_ssize_t most, measured *m)
{
    for (Py_ssize_t n = 0; n < q->ntargets; n++) {
        const ia_target *t = &q->targets[n];
        Py_ssize_t told = 0;
        for (uint32_t i = 0; i < t->count && told < most; i++) {
            told += is_held(q, t->referrers[i]);
            if (is_named(q, t->referrers[i]))
                ia_ways_add(&m->ways, &q->w, t->referrers[i], ALL_TARGETS);
        }
    }
    return set_aside(q, m);
}

/* What would be freed with each target: nothing else may hold what it
 * holds. */
static int
measure(const ia_question *q, ia_cost *costs, measured *m)
{
    ia_cut *cuts = calloc((size_t)q->ntargets, sizeof *cuts);
    if (cuts == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        cuts[i] = (ia_cut){(uintptr_t)q->targets[i].op, 0, (uint32_t)i,
                           IA_NO_ENTRY};
    int bad = ia_cuts_measure(&q->w, cuts, (uint32_t)q->ntargets,
                              (uint32_t)q->ntargets, costs, NULL,
                              m ? &m->ways : NULL);
    free(cuts);
    return bad < 0 ? ia_no_memory() : 0;
}

static ia_storage
storage_of(PyObject *op)
{
    ia_storage s = {0};
    int kind = ia_kind_of(Py_TYPE(op));
    if (kind == IA_KIND_TENSOR)
        ia_the_framework->storage_of(op, &s);
    else if (kind == IA_KIND_NDARRAY)
        s = block_of_array(op);
    return s;
}

/* Which nodes of all that the walk has met will read the targets' memory. */
static int
find_needed(ia_question *q)
{
    q->needed = calloc((size_t)q->ntargets + 1, sizeof *q->needed);
    if (q->needed == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        ia_storage s = storage_of(q->targets[i].op);
        const ia_reached *item =
            s.data || s.impl ? ia_storages_get(&q->storages, &s) : NULL;
        q->needed[i].key = item != NULL ? item->key : 0;
    }
    return ia_needed_find(&q->w, q->needed, (uint32_t)q->ntargets) < 0
               ? ia_no_memory()
               : 0;
}

static PyObject *
build_tensor(PyObject *op)
{
    ia_storage s = storage_of(op);
    return ia_tensor_build((uintptr_t)op, s.device, s.bytes);
}

static PyObject *
build_target(ia_question *q, const ia_target *t, Py_ssize_t most,
             const ia_cost *cost, const measured *m)
{
    judgement j;
    answers a = {.measured = m, .cost = cost};
    PyObject *type = NULL, *costs = NULL, *tensor = NULL;
    PyObject *needed = NULL, *elsewhere = NULL;
    if (judge(q, t, &j) == 0)
        type = ia_type_build((uintptr_t)t->op);
    if (type != NULL &&
        build_paths(q, t, j.on_cycle ? 0 : most, j.variable, &a) == 0)
        costs = ia_cost_build(cost);
    if (costs != NULL)
        tensor = build_tensor(t->op);
    if (tensor != NULL)
        needed = ia_needed_build(&q->w, q->needed, t - q->targets);
    if (needed != NULL)
        elsewhere = cost->bytes ? Py_NewRef(Py_None)
                                : ia_elsewhere_build(q, t->op);
    if (elsewhere != NULL)
        return Py_BuildValue(
            "{s:N,s:s,s:N,s:N,s:N,s:i,s:N,s:N,s:N,s:N,s:I,s:n,s:i}", "type",
            type,
            "verdict", j.verdict, "paths", a.paths, "ways", a.ways, "cycle",
            j.cycle, "forever", j.forever, "cost", costs, "tensor", tensor,
            "needed", needed, "elsewhere", elsewhere,
            "referrers", t->count, "refcount",
            Py_REFCNT(t->op) - 1 - (Py_ssize_t)ia_references_of_calls(t),
            "still", q->still || ia_the_framework == NULL);
    Py_XDECREF(type);
    Py_XDECREF(a.paths);
    Py_XDECREF(a.ways);
    Py_XDECREF(costs);
    Py_XDECREF(tensor);
    Py_XDECREF(needed);
    Py_XDECREF(j.cycle);
    return NULL;
}

/* One that was handed in twice was looked for once. */
static const ia_target *
target_of(const ia_question *q, Py_ssize_t i)
{
    return &q->targets[ia_ptrmap_get(&q->index,
                                     (uintptr_t)q->targets[i].op)];
}

static PyObject *
build(ia_question *q, Py_ssize_t most, const ia_cost *costs,
      const measured *m)
{
    if (find_needed(q) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < q->ntargets; i++)
        ia_list_add(&list,
                    build_target(q, target_of(q, i), most, &costs[i], m));
    return list;
}

static PyObject *
answer(ia_question *q, Py_ssize_t most, measured *m)
{
    PyObject *list = NULL;
    ia_cost *costs = calloc((size_t)q->ntargets + 1, sizeof *costs);
    if (costs == NULL)
        return PyErr_NoMemory();
    if ((m == NULL || list_ways(q, most, m) == 0) &&
        measure(q, costs, m) == 0)
        list = build(q, most, costs, m);
    free(costs);
    return list;
}

PyObject *
ia_explain(PyObject *objects, Py_ssize_t paths, int ways)
{
    ia_question q;
    measured m = {0};
    PyObject *result = NULL;
    ia_question_begin(&q);
    if (ia_question_ask(&q, objects) == 0)
        result = answer(&q, paths, ways ? &m : NULL);
    ia_question_finish(&q);
    free(m.aside);
    return result;
}

/* -- instances of a class ------------------------------------------------ */

PyObject *
ia_instances(PyTypeObject *type, Py_ssize_t most)
{
    ia_question q;
    PyObject *list = NULL, *none = PyTuple_New(0);
    Py_ssize_t found = 0;
    ia_question_begin(&q);
    if (none == NULL || ia_question_ask(&q, none) < 0)
        goto done;
    if (ia_walk_unrooted(&q.w, &q.roots, NULL) < 0) {
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
        ia_list_add(&list, ia_path_build(&q.w, i, IA_NO_ENTRY, NULL));
    }
done:
    ia_question_finish(&q);
    Py_XDECREF(none);
    return list ? Py_BuildValue("(nN)", found, list) : NULL;
}
