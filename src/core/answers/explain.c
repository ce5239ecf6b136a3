/* Who holds these objects.
 *
 * The walk notes every reference into a target, not the first alone.  It goes
 * on through the targets themselves only when all else has been seen, so that
 * nothing counts as a holder that a target itself holds.  The reference that
 * the caller handed in, its own variables and those of the calls that handed
 * the object down to it are not followed: they are how it got here, not why it
 * is alive.  Where there is nothing else, they are the answer.
 */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/build.h"
#include "../base/device_name.h"
#include "../base/errors.h"
#include "../base/ndarray.h"
#include "../ledger/frames.h"
#include "../heap/roots.h"
#include "../heap/unrooted.h"
#include "../names/path.h"
#include "../names/text.h"
#include "../holders/retained.h"
#include "describe.h"
#include "explain.h"
#include "needed.h"

#include <stdlib.h>

typedef struct {
    PyObject *op; /* borrowed from the tuple */
    uint32_t *referrers; /* owned: entries that refer to it */
    uint32_t count;
    uint32_t variables; /* of the caller: references that it has */
    uint32_t crowd; /* entry of the crowd it is a member of, or NONE */
} target;

/* A running call that has a target in a variable. */
typedef struct {
    uintptr_t frame; /* ref */
    uintptr_t names; /* its namespace when it is a module's, or 0 */
} caller;

/* Calls that an object is handed down through. */
#define MAX_CALLERS 16

typedef struct {
    ia_walk w;
    ia_storages storages;
    ia_roots roots;
    target *targets;
    Py_ssize_t ntargets;
    ia_ptrmap index;
    caller callers[MAX_CALLERS]; /* innermost first */
    int ncallers;
    ia_cut *cuts; /* owned */
    uint32_t ncuts;
    PyObject **handed; /* owned */
    uint32_t nhanded;
    uint32_t handed_capacity;
    ia_needed *needed; /* owned: by live graphs, one for each target */
    int past_targets; /* on through the targets */
    uint32_t *above; /* owned: the nearest target above each entry, or NONE */
    uint32_t traced, above_capacity;
    int still; /* what walk_begin said */
    int collecting; /* the collector was on */
} question;

/* -- references into the targets ----------------------------------------- */

/* Traced as far as it is asked for: parents stand before their children, and
 * a way may be a million entries long. */
static uint32_t
target_above(question *q, uint32_t entry)
{
    if (IA_ROOM(q->above, q->above_capacity, (uint64_t)entry + 1) < 0) {
        q->w.failed = 1;
        return IA_NO_ENTRY;
    }
    for (; q->traced <= entry; q->traced++) {
        uint32_t up = q->w.queue[q->traced].parent;
        if (up != IA_NO_ENTRY &&
            ia_ptrmap_get(&q->index, q->w.queue[up].ref) == IA_PTRMAP_NONE)
            up = q->above[up];
        q->above[q->traced] = up;
    }
    return q->above[entry];
}

/* Does the way to this entry lead through the target? */
static int
is_below(question *q, uint32_t entry, PyObject *op)
{
    for (; entry != IA_NO_ENTRY; entry = target_above(q, entry))
        if (q->w.queue[entry].ref == (uintptr_t)op)
            return 1;
    return 0;
}

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
        (t->count > 0 && t->referrers[t->count - 1] == w->parent) ||
        (q->past_targets && is_below(q, w->parent, op)))
        return;
    t->referrers[t->count++] = w->parent;
}

static int
read_targets(question *q, PyObject *objects)
{
    q->ntargets = PyTuple_GET_SIZE(objects);
    q->targets = calloc((size_t)q->ntargets + 1, sizeof *q->targets);
    if (q->targets == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        target *t = &q->targets[i];
        t->op = PyTuple_GET_ITEM(objects, i);
        t->crowd = IA_NO_ENTRY;
        t->referrers = calloc(IA_MAX_REFERRERS, sizeof *t->referrers);
        if (t->referrers == NULL ||
            ia_ptrmap_set(&q->index, (uintptr_t)t->op, (uint32_t)i) < 0)
            return ia_no_memory();
    }
    return 0;
}

/* -- the caller's own references ----------------------------------------- */

/* What the variables of a running call hold; stops where visit says so. */
static int
visit_variables(const caller *c, visitproc visit, void *arg)
{
    ia_frame *frame = (ia_frame *)IA_ADDRESS(c->frame);
    PyObject *names = (PyObject *)c->names, *key, *value;
    Py_ssize_t pos = 0;
    int stop = 0;
    for (int i = 0; !stop && i < ia_frame_slots(frame); i++)
        stop = visit(ia_frame_slot(frame, i), arg);
    while (!stop && names != NULL && PyDict_Check(names) &&
           PyDict_Next(names, &pos, &key, &value))
        stop = visit(value, arg);
    return stop;
}

static int
is_target(PyObject *op, void *arg)
{
    const question *q = arg;
    return op != NULL &&
           ia_ptrmap_get(&q->index, (uintptr_t)op) != IA_PTRMAP_NONE;
}

static int
count_variable(PyObject *op, void *arg)
{
    question *q = arg;
    if (is_target(op, q))
        q->targets[ia_ptrmap_get(&q->index, (uintptr_t)op)].variables++;
    return 0;
}

static int
is_same(PyObject *op, void *arg)
{
    return op == arg;
}

static int
is_known_namespace(const question *q, uintptr_t names)
{
    for (int i = 0; i < q->ncallers; i++)
        if (q->callers[i].names == names)
            return 1;
    return 0;
}

/* The innermost frame that is not ours, and outwards as long as they have a
 * target in a variable. */
static void
find_callers(question *q)
{
    ia_frame *f = ia_frame_top(PyThreadState_Get());
    for (; f != NULL && q->ncallers < MAX_CALLERS; f = ia_frame_back(f)) {
        if (ia_frame_is_own(f))
            continue;
        caller c = {(uintptr_t)f | IA_TAG_FRAME,
                    (uintptr_t)ia_frame_locals(f)};
        if (is_known_namespace(q, c.names))
            c.names = 0;
        if (q->ncallers > 0 && !visit_variables(&c, is_target, q))
            return;
        visit_variables(&c, count_variable, q);
        q->callers[q->ncallers++] = c;
    }
}

/* References that f(*objects, paths=n) makes besides its tuples. */
static uint32_t
passed_in_array(const question *q)
{
    return q->ncallers > 0 &&
           ia_frame_calls_with_array(
               (ia_frame *)IA_ADDRESS(q->callers[0].frame));
}

static void
add_cut(question *q, uintptr_t parent, uintptr_t child)
{
    q->cuts[q->ncuts++] = (ia_cut){parent, child, 0, IA_NO_ENTRY};
}

/* Lists what the walk must not follow, and what the caller has made of
 * references to the targets. */
static int
set_the_caller_aside(question *q)
{
    uint32_t references = 0, extra = passed_in_array(q);
    q->cuts = calloc((size_t)q->ntargets * (1 + 2 * MAX_CALLERS) + 1,
                     sizeof *q->cuts);
    if (q->cuts == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        uintptr_t ref = (uintptr_t)q->targets[i].op;
        references += 1 + extra + q->targets[i].variables;
        add_cut(q, ref, 0);
        for (int c = 0; c < q->ncallers; c++) {
            add_cut(q, q->callers[c].frame, ref);
            if (q->callers[c].names)
                add_cut(q, q->callers[c].names, ref);
        }
    }
    if (IA_ROOM(q->handed, q->handed_capacity, references) < 0)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        for (uint32_t n = 0; n <= extra + q->targets[i].variables; n++)
            q->handed[q->nhanded++] = q->targets[i].op;
    ia_cuts_order(q->cuts, q->ncuts);
    return ia_walk_set_cuts(&q->w, q->cuts, q->ncuts) < 0 ? ia_no_memory()
                                                          : 0;
}

/* f(*objects) hands over a tuple of its own: the one that the call was made
 * with lies on the caller's stack, where nothing leads to it. */
static void
set_twin_aside(PyObject *op, void *arg)
{
    question *q = arg;
    if (!PyTuple_CheckExact(op) || PyTuple_GET_SIZE(op) != q->ntargets ||
        ia_bitmap_test(q->w.seen, (uintptr_t)op))
        return;
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (PyTuple_GET_ITEM(op, i) != q->targets[i].op)
            return;
    if (IA_ROOM(q->handed, q->handed_capacity,
                q->nhanded + (uint64_t)q->ntargets) < 0) {
        q->w.failed = 1;
        return;
    }
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        q->handed[q->nhanded++] = q->targets[i].op;
    ia_walk_hide(&q->w, op);
}

/* -- the walk ------------------------------------------------------------ */

/* What the targets hold: all else has been seen. */
static void
go_past_targets(question *q)
{
    uint32_t count = q->w.count;
    q->w.ncuts = 0;
    q->past_targets = 1;
    for (uint32_t i = 0; i < count && q->ntargets > 0; i++) {
        uintptr_t ref = q->w.queue[i].ref;
        if (ia_ptrmap_get(&q->index, ref) == IA_PTRMAP_NONE)
            continue;
        q->w.parent = i;
        ia_walk_expand(&q->w, ref);
    }
    ia_walk_run(&q->w);
}

static int
all_answered(const question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (q->targets[i].count == 0)
            return 0;
    return 1;
}

/* What nothing at all leads to is there for its caller alone. */
static int
seed_the_rest(question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (q->targets[i].count == 0 &&
            ia_walk_seed_alone(&q->w, &q->roots, q->targets[i].op,
                               IA_ROOT_CALLER) < 0)
            return ia_no_memory();
    return 0;
}

static int
walk(question *q, PyObject *objects)
{
    if (ia_roots_collect(&q->roots) < 0 ||
        ia_walk_init(&q->w, &q->storages, &q->roots) < 0)
        return ia_no_memory();
    q->w.on_reference = note_reference;
    q->w.on_reference_arg = q;
    q->w.graph = q->still;
    find_callers(q);
    ia_walk_hide(&q->w, objects);
    if (set_the_caller_aside(q) < 0)
        return -1;
    ia_walk_from_roots(&q->w);
    go_past_targets(q);
    if (!all_answered(q) && q->ntargets > 0)
        ia_each_gc_object(set_twin_aside, q);
    if (!all_answered(q) &&
        ia_walk_unrooted(&q->w, &q->roots,
                         &(ia_handed){q->handed, q->nhanded,
                                      q->nhanded}) < 0)
        return ia_no_memory();
    if (seed_the_rest(q) < 0)
        return -1;
    return q->w.failed ? ia_no_memory() : 0;
}

static void
begin(question *q)
{
    *q = (question){0};
    if (ia_the_framework != NULL)
        q->still = ia_the_framework->walk_begin(1);
    q->collecting = PyGC_Disable();
    ia_kinds_forget();
}

static void
finish(question *q)
{
    if (ia_the_framework != NULL)
        ia_the_framework->walk_end();
    ia_walk_free(&q->w);
    ia_storages_free(&q->storages);
    ia_roots_free(&q->roots);
    ia_ptrmap_free(&q->index);
    for (Py_ssize_t i = 0; q->targets != NULL && i < q->ntargets; i++)
        free(q->targets[i].referrers);
    ia_needed_free(q->needed, (uint32_t)q->ntargets);
    free(q->needed);
    free(q->targets);
    free(q->above);
    free(q->cuts);
    free(q->handed);
    if (q->collecting)
        PyGC_Enable();
}

/* -- the answer ---------------------------------------------------------- */

/* The path over one referrer; the entry that it ends in is made for it. */
static int
append_path(question *q, const target *t, uint32_t referrer, PyObject *list)
{
    uint32_t last = ia_walk_append(&q->w, (uintptr_t)t->op, referrer);
    if (last == IA_NO_ENTRY)
        return ia_no_memory();
    PyObject *path = ia_path_build(&q->w, last, IA_NO_ENTRY, NULL);
    int bad = path == NULL ? -1 : PyList_Append(list, path);
    Py_XDECREF(path);
    return bad;
}

/* The entry of the outermost call or namespace that has it, or NONE. */
static uint32_t
variable_of(const question *q, PyObject *op)
{
    int last = q->ncallers - 1;
    while (last >= 0 && !visit_variables(&q->callers[last], is_same, op))
        last--;
    if (last < 0)
        return IA_NO_ENTRY;
    const caller *c = &q->callers[last];
    uintptr_t names = c->names ? c->names : c->frame;
    for (uint32_t i = 0; i < q->w.count; i++)
        if (q->w.queue[i].ref == names)
            return i;
    return IA_NO_ENTRY;
}

/* Root of the entry in whose tree the target lies. */
static const ia_root *
root_of(const question *q, uint32_t entry)
{
    return &q->roots.items[q->w.queue[ia_walk_root(&q->w, entry)].root];
}

/* By something that is there for more than the question. */
static int
is_held(const question *q, uint32_t entry)
{
    return root_of(q, entry)->kind != IA_ROOT_CALLER;
}

static PyObject *
build_paths(question *q, const target *t, Py_ssize_t most, int variable)
{
    PyObject *list = PyList_New(0);
    int held = 0;
    for (uint32_t i = 0; i < t->count && !held; i++)
        held = is_held(q, t->referrers[i]);
    uint32_t caller = variable ? variable_of(q, t->op) : IA_NO_ENTRY;
    if (list != NULL && caller != IA_NO_ENTRY &&
        append_path(q, t, caller, list) < 0)
        Py_CLEAR(list);
    for (uint32_t i = 0;
         list != NULL && i < t->count && PyList_GET_SIZE(list) < most; i++)
        if ((!held || is_held(q, t->referrers[i])) &&
            append_path(q, t, t->referrers[i], list) < 0)
            Py_CLEAR(list);
    return list;
}

/* The member of a crowd under which the target lies, or it itself. */
static uintptr_t
cycle_member(const question *q, const target *t)
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

/* The cycle that the target is on, else the one that it hangs on. */
static PyObject *
find_cycle(const question *q, const target *t, int *on_cycle)
{
    uintptr_t member = cycle_member(q, t);
    PyObject *cycle = ia_cycle_build((uintptr_t)t->op, q->w.graph);
    *on_cycle = cycle != NULL && PyList_GET_SIZE(cycle) > 0;
    if (cycle == NULL || *on_cycle || member == (uintptr_t)t->op)
        return cycle;
    Py_DECREF(cycle);
    return ia_cycle_build(member, q->w.graph);
}

/* The best answer decides: a path, else a cycle, else C++ alone. */
static int
judge(const question *q, const target *t, judgement *j)
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
            j->cycle = ia_cycle_build((uintptr_t)t->op, q->w.graph);
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

/* What would be freed with each target: nothing else may hold what it
 * holds. */
static int
measure(const question *q, ia_cost *costs)
{
    ia_cut *cuts = calloc((size_t)q->ntargets, sizeof *cuts);
    if (cuts == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        cuts[i] = (ia_cut){(uintptr_t)q->targets[i].op, 0, (uint32_t)i,
                           IA_NO_ENTRY};
    int bad = ia_cuts_measure(&q->w, cuts, (uint32_t)q->ntargets,
                              (uint32_t)q->ntargets, costs);
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
find_needed(question *q)
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
build_target(question *q, const target *t, Py_ssize_t most,
             const ia_cost *cost)
{
    judgement j;
    PyObject *type = NULL, *paths = NULL, *costs = NULL, *tensor = NULL;
    PyObject *needed = NULL;
    if (judge(q, t, &j) == 0)
        type = ia_type_build((uintptr_t)t->op);
    if (type != NULL)
        paths = build_paths(q, t, j.on_cycle ? 0 : most, j.variable);
    if (paths != NULL)
        costs = cost ? ia_cost_build(cost) : Py_NewRef(Py_None);
    if (costs != NULL)
        tensor = build_tensor(t->op);
    if (tensor != NULL)
        needed = ia_needed_build(&q->w, q->needed, t - q->targets);
    if (needed != NULL)
        return Py_BuildValue(
            "{s:N,s:s,s:N,s:N,s:i,s:N,s:N,s:N,s:I,s:n,s:i}", "type", type,
            "verdict", j.verdict, "paths", paths, "cycle", j.cycle, "forever",
            j.forever, "cost", costs, "tensor", tensor, "needed", needed, "referrers", t->count,
            "refcount", Py_REFCNT(t->op) - 1 - (Py_ssize_t)t->variables,
            "still", q->still);
    Py_XDECREF(type);
    Py_XDECREF(paths);
    Py_XDECREF(costs);
    Py_XDECREF(tensor);
    Py_XDECREF(j.cycle);
    return NULL;
}

/* One that was handed in twice was looked for once. */
static const target *
target_of(const question *q, Py_ssize_t i)
{
    return &q->targets[ia_ptrmap_get(&q->index,
                                     (uintptr_t)q->targets[i].op)];
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
    if (find_needed(q) < 0)
        goto done;
    list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < q->ntargets; i++)
        ia_list_add(&list, build_target(q, target_of(q, i), most,
                                        costs ? &costs[i] : NULL));
done:
    free(costs);
    return list;
}

PyObject *
ia_explain(PyObject *objects, Py_ssize_t paths, int cost)
{
    question q;
    PyObject *result = NULL;
    begin(&q);
    if (read_targets(&q, objects) == 0 && walk(&q, objects) == 0)
        result = build(&q, paths, cost);
    finish(&q);
    return result;
}

/* -- instances of a class ------------------------------------------------ */

PyObject *
ia_instances(PyTypeObject *type, Py_ssize_t most)
{
    question q;
    PyObject *list = NULL, *none = PyTuple_New(0);
    Py_ssize_t found = 0;
    begin(&q);
    if (none == NULL || walk(&q, none) < 0)
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
    finish(&q);
    Py_XDECREF(none);
    return list ? Py_BuildValue("(nN)", found, list) : NULL;
}
