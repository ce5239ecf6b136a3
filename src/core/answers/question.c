/* The walk that answers a question, and what the caller has of the targets. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/errors.h"
#include "../base/kinds.h"
#include "../ledger/frames.h"
#include "../heap/crowds.h"
#include "../heap/own.h"
#include "question.h"

#include <stdlib.h>

/* -- references into the targets ----------------------------------------- */

/* Traced as far as it is asked for: parents stand before their children, and
 * a way may be a million entries long. */
static uint32_t
target_above(ia_question *q, uint32_t entry)
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
is_below(ia_question *q, uint32_t entry, PyObject *op)
{
    for (; entry != IA_NO_ENTRY; entry = target_above(q, entry))
        if (q->w.queue[entry].ref == (uintptr_t)op)
            return 1;
    return 0;
}

static void
note_reference(ia_walk *w, PyObject *op, void *arg)
{
    ia_question *q = arg;
    uint32_t i = ia_ptrmap_get(&q->index, (uintptr_t)op);
    if (i == IA_PTRMAP_NONE || w->parent == IA_NO_ENTRY)
        return;
    ia_target *t = &q->targets[i];
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
read_targets(ia_question *q, PyObject *objects)
{
    q->ntargets = PyTuple_GET_SIZE(objects);
    q->targets = calloc((size_t)q->ntargets + 1, sizeof *q->targets);
    if (q->targets == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        ia_target *t = &q->targets[i];
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
visit_variables(const ia_caller *c, visitproc visit, void *arg)
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

/* NULL where it is none. */
static ia_target *
target_of(const ia_question *q, PyObject *op)
{
    uint32_t i = op != NULL ? ia_ptrmap_get(&q->index, (uintptr_t)op)
                            : IA_PTRMAP_NONE;
    return i != IA_PTRMAP_NONE ? &q->targets[i] : NULL;
}

static int
is_target(PyObject *op, void *question)
{
    return target_of(question, op) != NULL;
}

static int
count_variable(PyObject *op, void *question)
{
    ia_target *t = target_of(question, op);
    if (t != NULL)
        t->variables++;
    return 0;
}

static int
count_ours(PyObject *op, void *question)
{
    ia_target *t = target_of(question, op);
    if (t != NULL)
        t->ours++;
    return 0;
}

static int
is_same(PyObject *op, void *arg)
{
    return op == arg;
}

static int
is_known_namespace(const ia_question *q, uintptr_t names)
{
    for (int i = 0; i < q->ncallers; i++)
        if (q->callers[i].names == names)
            return 1;
    return 0;
}

/* The innermost frame that is not ours, and outwards as long as they have a
 * target in a variable. */
static void
find_callers(ia_question *q)
{
    ia_frame *f = ia_frame_top(PyThreadState_Get());
    for (; f != NULL && q->ncallers < IA_MAX_CALLERS; f = ia_frame_back(f)) {
        if (ia_frame_is_own(f)) {
            ia_caller us = {.frame = (uintptr_t)f | IA_TAG_FRAME};
            visit_variables(&us, count_ours, q);
            continue;
        }
        ia_caller c = {(uintptr_t)f | IA_TAG_FRAME,
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
passed_in_array(const ia_question *q)
{
    return q->ncallers > 0 &&
           ia_frame_calls_with_array(
               (ia_frame *)IA_ADDRESS(q->callers[0].frame));
}

static void
add_cut(ia_question *q, uintptr_t parent, uintptr_t child)
{
    q->cuts[q->ncuts++] = (ia_cut){parent, child, 0, IA_NO_ENTRY};
}

/* Lists what the walk must not follow, and what the caller has made of
 * references to the targets. */
static int
set_the_caller_aside(ia_question *q)
{
    uint32_t references = 0, extra = passed_in_array(q);
    q->cuts = calloc((size_t)q->ntargets * (1 + 2 * IA_MAX_CALLERS) + 1,
                     sizeof *q->cuts);
    if (q->cuts == NULL)
        return ia_no_memory();
    for (Py_ssize_t i = 0; i < q->ntargets; i++) {
        uintptr_t ref = (uintptr_t)q->targets[i].op;
        references += 1 + extra + ia_references_of_calls(&q->targets[i]);
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
        for (uint32_t n = 0; n <= extra + ia_references_of_calls(&q->targets[i]); n++)
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
    ia_question *q = arg;
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

uint32_t
ia_question_variable_of(const ia_question *q, PyObject *op)
{
    int last = q->ncallers - 1;
    while (last >= 0 && !visit_variables(&q->callers[last], is_same, op))
        last--;
    if (last < 0)
        return IA_NO_ENTRY;
    const ia_caller *c = &q->callers[last];
    uintptr_t names = c->names ? c->names : c->frame;
    for (uint32_t i = 0; i < q->w.count; i++)
        if (q->w.queue[i].ref == names)
            return i;
    return IA_NO_ENTRY;
}

/* -- the walk ------------------------------------------------------------ */

/* What the targets hold: all else has been seen. */
static void
go_past_targets(ia_question *q)
{
    uint32_t count = q->w.count;
    q->w.ncuts = 0;
    q->past_targets = 1;
    q->before_targets = count;
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
all_answered(const ia_question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (q->targets[i].count == 0)
            return 0;
    return 1;
}

/* What nothing at all leads to is there for its caller alone. */
static int
seed_the_rest(ia_question *q)
{
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        if (q->targets[i].count == 0 &&
            ia_walk_seed_alone(&q->w, &q->roots, q->targets[i].op,
                               IA_ROOT_CALLER) < 0)
            return ia_no_memory();
    return 0;
}

static int
walk(ia_question *q, PyObject *objects)
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

const ia_bitmap *
ia_question_held_by_others(ia_question *q)
{
    if (q->told_apart)
        return q->w.seen;
    for (uint32_t i = q->before_targets; i < q->w.count; i++)
        ia_bitmap_unmark(q->w.seen, IA_ADDRESS(q->w.queue[i].ref));
    for (Py_ssize_t i = 0; i < q->ntargets; i++)
        ia_bitmap_unmark(q->w.seen, (uintptr_t)q->targets[i].op);
    q->told_apart = 1;
    return q->w.seen;
}

void
ia_question_begin(ia_question *q)
{
    *q = (ia_question){0};
    if (ia_the_framework != NULL)
        q->still = ia_the_framework->walk_begin(1);
    q->collecting = PyGC_Disable();
    ia_kinds_forget();
}

void
ia_question_finish(ia_question *q)
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

int
ia_question_ask(ia_question *q, PyObject *objects)
{
    return read_targets(q, objects) < 0 ? -1 : walk(q, objects);
}
