/* Breadth-first pass over everything that holds. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/ndarray.h"
#include "../ledger/frames.h"
#include "purposes.h"
#include "tally.h"
#include "walk.h"

#include <stdlib.h>

/* Queue entries looked at ahead of time: the walk waits for memory, not for
 * the processor. */
#define PREFETCH 6

static int
seen_before_by_others(ia_walk *w, uintptr_t address)
{
    if (ia_bitmap_mark(w->seen, address) ||
        ia_bitmap_test(w->claims->shared, address))
        return 1;
    if (ia_bitmap_mark(w->claims->any, address))
        ia_bitmap_mark(w->claims->shared, address);
    return 0;
}

static inline int
seen_before(ia_walk *w, uintptr_t address)
{
    if (w->below != NULL && ia_bitmap_test(w->below, address))
        return 1;
    return w->claims != NULL ? seen_before_by_others(w, address)
                             : ia_bitmap_mark(w->seen, address);
}

/* The same for a reference that a library's module may lead on by. */
static inline int
met_before(ia_walk *w, uintptr_t ref)
{
    if (!seen_before(w, IA_ADDRESS(ref)))
        return 0;
    ia_crossings_note(w->crossings, ref);
    return 1;
}

static void
push(ia_walk *w, uintptr_t ref, uint32_t parent, uint32_t root)
{
    if (IA_ROOM(w->queue, w->capacity, (uint64_t)w->count + 1) < 0) {
        w->failed = 1;
        return;
    }
    w->queue[w->count++] = (ia_entry){ref, parent, root};
}

/* What has no collector header leads nowhere, unless the framework or NumPy
 * says otherwise: most of what there is, numbers and strings, is not even
 * marked. */
static int
leads_nowhere(PyObject *op)
{
    return !PyType_IS_GC(Py_TYPE(op)) &&
           ia_kind_of(Py_TYPE(op)) == IA_KIND_PLAIN;
}

static void
look_at(ia_walk *w, PyObject *op)
{
    if (op == NULL || ia_walk_is_cut(w, (uintptr_t)op))
        return;
    if (w->on_reference != NULL)
        w->on_reference(w, op, w->on_reference_arg);
    if (leads_nowhere(op)) {
        if (w->tally != NULL)
            ia_tally_add(w->tally, op, w->parent);
        return;
    }
    if (w->classes_wait && PyType_Check(op) &&
        ia_class_waits(&w->classes, w->roots, op, w->parent))
        return;
    if (met_before(w, (uintptr_t)op | IA_TAG_OBJECT))
        return;
    if (ia_is_gc(op) || ia_kind_of(Py_TYPE(op)) != IA_KIND_PLAIN)
        push(w, (uintptr_t)op | IA_TAG_OBJECT, w->parent, 0);
}

static void
look_at_awaited(ia_walk *w)
{
    for (uint32_t i = 0; i < w->nawaited; i++)
        look_at(w, w->awaited[i]);
    w->nawaited = 0;
}

/* Most of a walk is waiting for the headers of what is referred to.  So those
 * of one object are asked for together, and looked at in the same order once
 * all are on their way; what was seen before is not read again. */
static int
visit(PyObject *op, void *arg)
{
    ia_walk *w = arg;
    if (op == NULL)
        return 0;
    if (w->on_reference == NULL && ia_bitmap_has(w->seen, (uintptr_t)op)) {
        ia_crossings_note(w->crossings, (uintptr_t)op | IA_TAG_OBJECT);
        return 0;
    }
    __builtin_prefetch(op);
    w->awaited[w->nawaited++] = op;
    if (w->nawaited == IA_MOST_AWAITED)
        look_at_awaited(w);
    return 0;
}

/* A method that was taken of an object: a function of a library's has its
 * module there. */
static int
is_bound(PyObject *op)
{
    if (!PyCFunction_Check(op))
        return Py_TYPE(op) == &PyMethod_Type;
    PyObject *self = PyCFunction_GET_SELF(op);
    return self != NULL && !PyModule_Check(self);
}

static ia_turn
turn_of(const ia_walk *w, uintptr_t ref)
{
    if (IA_TAG(ref) == IA_TAG_NODE)
        return IA_TURN_NODES;
    uintptr_t parent = w->queue[w->parent].ref;
    return IA_TAG(parent) == IA_TAG_OBJECT && is_bound((PyObject *)parent)
               ? IA_TURN_BOUND
               : IA_TURN_OTHERS;
}

/* Left for the end of the walk.  0 where it must be followed at once: memory is
 * short, or nobody comes back for it. */
static int
put_off(ia_walk *w, uintptr_t ref)
{
    if (!w->puts_off)
        return 0;
    ia_put_offs *those = &w->put_off[turn_of(w, ref)];
    if (IA_ROOM(those->items, those->capacity, (uint64_t)those->count + 1) < 0)
        return 0;
    those->items[those->count++] = (ia_put_off){ref, w->parent};
    return 1;
}

static int
sink_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
            Py_ssize_t index)
{
    ia_walk *w = (ia_walk *)sink;
    (void)name, (void)index;
    /* One that Python has seen comes as an object, any other by its storage. */
    if (kind == IA_EDGE_GRAD && w->marks == NULL)
        ia_purpose_note_gradient(w->storages, op);
    return visit(op, sink);
}

static int
sink_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    ia_walk *w = (ia_walk *)sink;
    (void)name, (void)index;
    uintptr_t ref = (uintptr_t)node | IA_TAG_NODE;
    look_at_awaited(w); /* what comes first is pushed first */
    if (node == NULL || !w->graph || ia_walk_is_cut(w, ref))
        return 0;
    /* What has a name goes by it, be it saved in the graph besides. */
    if (kind == IA_EDGE_GRAD_FN && put_off(w, ref))
        return 0;
    if (!met_before(w, ref))
        push(w, ref, w->parent, 0);
    return 0;
}

int
ia_walk_init(ia_walk *w, ia_storages *storages, const ia_roots *roots)
{
    *w = (ia_walk){
        .sink = {sink_object, sink_node, ia_walk_meet, NULL},
        .storages = storages,
        .roots = roots,
        .rooted_entries = UINT32_MAX,
        .claimed_entries = UINT32_MAX,
        .rooted_roots = UINT32_MAX,
        .parent = IA_NO_ENTRY,
        .first_cut = IA_PTRMAP_NONE,
        .classes_wait = roots->near,
    };
    w->seen = ia_bitmap_new();
    return w->seen == NULL ? -1 : 0;
}

void
ia_walk_free(ia_walk *w)
{
    ia_bitmap_free(w->seen);
    ia_ptrmap_free(&w->cut_of);
    ia_passing_free(&w->passing);
    ia_classes_free(&w->classes);
    for (ia_turn turn = 0; turn < IA_TURNS; turn++)
        free(w->put_off[turn].items);
    free(w->queue);
    w->seen = NULL;
    memset(w->put_off, 0, sizeof w->put_off);
    w->queue = NULL;
}

void
ia_walk_hide(ia_walk *w, void *address)
{
    if (address != NULL)
        ia_bitmap_mark(w->seen, (uintptr_t)address);
}

void
ia_walk_seed(ia_walk *w, uintptr_t ref, uint32_t root)
{
    if (ia_cuts_have(w, ia_cuts_at(w, 0), ref))
        return;
    ia_crossings_note(w->crossings, ref);
    ia_walk_hide(w, (void *)IA_ADDRESS(ref));
    push(w, ref, IA_NO_ENTRY, root);
}

uint32_t
ia_walk_append(ia_walk *w, uintptr_t ref, uint32_t parent)
{
    push(w, ref, parent, 0);
    return w->failed ? IA_NO_ENTRY : w->count - 1;
}

void
ia_walk_seed_unmarked(ia_walk *w, uintptr_t ref, uint32_t root)
{
    push(w, ref, IA_NO_ENTRY, root);
}

/* What could not be marked passed for seen. */
static inline void
note_unmarked(ia_walk *w)
{
    if (w->seen->failed)
        w->failed = 1;
}

void
ia_walk_follow(ia_walk *w, uintptr_t ref, uint32_t parent)
{
    if (!seen_before(w, IA_ADDRESS(ref)))
        push(w, ref, parent, 0);
    note_unmarked(w);
}

uint32_t
ia_walk_root(const ia_walk *w, uint32_t entry)
{
    while (w->queue[entry].parent != IA_NO_ENTRY)
        entry = w->queue[entry].parent;
    return entry;
}

/* -- expansion ----------------------------------------------------------- */

/* Is what is being looked at a call that comes and goes? */
static int
is_late(const ia_walk *w)
{
    if (w->parent == IA_NO_ENTRY)
        return 0;
    const ia_entry *e = &w->queue[w->parent];
    return e->parent == IA_NO_ENTRY && w->roots->items[e->root].late;
}

static void
expand_frame(ia_walk *w, ia_frame *frame)
{
    int slots = ia_frame_slots(frame);
    int late = w->puts_off && is_late(w);
    const ia_passing *known =
        w->puts_off ? ia_passing_of(&w->passing, ia_frame_code(frame),
                                    ia_frame_instr(frame))
                    : NULL;
    for (int i = 0; i < slots; i++) {
        PyObject *op = ia_frame_slot(frame, i);
        int passes = late || (known != NULL && ia_passing_slot(known, i));
        if (op == NULL || !passes ||
            !put_off(w, (uintptr_t)op | IA_TAG_OBJECT))
            visit(op, w);
    }
    visit(ia_frame_locals(frame), w);
    visit(ia_frame_function(frame), w);
    visit((PyObject *)ia_frame_object(frame), w);
}

/* Code of the script, which its variables outlive; kept for good. */
static PyCodeObject *main_code;
static uintptr_t main_names;

/* The code whose loops at the top level fill this namespace, or NULL; *at is
 * where it runs, or -1. */
static PyCodeObject *
code_of_namespace(const ia_walk *w, uintptr_t dict, Py_ssize_t *at)
{
    const ia_roots *roots = w->roots;
    *at = -1;
    for (uint32_t i = 0; i < roots->count; i++) {
        const ia_root *root = &roots->items[i];
        if (root->kind != IA_ROOT_FRAME)
            continue;
        ia_frame *frame = (ia_frame *)IA_ADDRESS(root->ref);
        if ((uintptr_t)ia_frame_locals(frame) != dict)
            continue;
        if (main_code == NULL && roots->items[0].ref == dict) {
            main_code = (PyCodeObject *)Py_NewRef(ia_frame_code(frame));
            main_names = dict;
        }
        *at = ia_frame_instr(frame);
        return ia_frame_code(frame);
    }
    return main_names == dict ? main_code : NULL;
}

/* Whether it was a user's module, whose variables are looked at by name. */
static int
expand_namespace(ia_walk *w, PyObject *dict)
{
    if (!w->puts_off || w->parent == IA_NO_ENTRY)
        return 0;
    const ia_entry *entry = &w->queue[w->parent];
    if (entry->parent != IA_NO_ENTRY ||
        w->roots->items[entry->root].kind != IA_ROOT_MODULE ||
        !PyDict_CheckExact(dict))
        return 0;
    Py_ssize_t at;
    PyCodeObject *code = code_of_namespace(w, (uintptr_t)dict, &at);
    const ia_passing *known =
        code == NULL ? NULL : ia_passing_of(&w->passing, code, at);
    if (known == NULL)
        return 0;
    PyObject *name, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &name, &value)) {
        visit(name, w);
        if (!ia_passing_name(known, name) ||
            !put_off(w, (uintptr_t)value | IA_TAG_OBJECT))
            visit(value, w);
    }
    return 1;
}

static int
visit_later(PyObject *op, void *arg)
{
    ia_walk *w = arg;
    return op != NULL && put_off(w, (uintptr_t)op | IA_TAG_OBJECT)
               ? 0
               : visit(op, w);
}

static void
expand_crowd(ia_walk *w, const ia_crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++)
        visit(crowd->members[i], w);
}

void
ia_walk_traverse(const ia_walk *w, PyObject *op, visitproc visitor, void *arg)
{
    int kind = ia_kind_of(Py_TYPE(op));
    int framework = kind != IA_KIND_PLAIN && kind < IA_KIND_NDARRAY;
    if (Py_TYPE(op)->tp_traverse != NULL && (w->graph || !framework))
        Py_TYPE(op)->tp_traverse(op, visitor, arg);
}

/* A tensor visits the wrapper or the ctx of a node that it alone owns, as if
 * they were its own: the node leads to them. */
static int
visit_but_node(PyObject *child, void *arg)
{
    int kind = ia_kind_of(Py_TYPE(child));
    return kind == IA_KIND_FUNCTION || kind == IA_KIND_NODE
               ? 0
               : visit(child, arg);
}

/* Nothing is behind it; a second pass that follows what was cut marks it. */
static void
expand_memory(const ia_walk *w, uintptr_t key)
{
    uint32_t i = ia_ptrmap_get(&w->storages->index, key);
    if (w->marks != NULL && i != IA_PTRMAP_NONE)
        ia_walk_mark(w, i);
}

static void
expand_array(ia_walk *w, PyObject *op)
{
    ia_storage block;
    if (ia_ndarray_block(op, &block))
        ia_walk_meet(&w->sink, &block, IA_EDGE_STORAGE, NULL, -1);
    ia_ndarray_traverse(op, visit, w);
}

/* Whether its keys are tensors, as an optimizer's `state` has them. */
static int
has_tensors_for_keys(PyObject *op)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    return PyDict_Check(op) && PyDict_Next(op, &pos, &key, &value) &&
           ia_kind_of(Py_TYPE(key)) == IA_KIND_TENSOR;
}

static int
visit_tensors_later(PyObject *op, void *arg)
{
    return op != NULL && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR
               ? visit_later(op, arg)
               : visit(op, arg);
}

/* A generator's or a coroutine's variables, which its tp_traverse shows while
 * it waits alone: who leads to it has them all along, a call of it comes and
 * goes. */
static void
expand_running(ia_walk *w, PyObject *op)
{
    int running;
    ia_frame *frame = ia_generator_frame(op, &running);
    if (frame != NULL && running)
        expand_frame(w, frame);
}

static void
expand_object(ia_walk *w, PyObject *op)
{
    int kind = ia_kind_of(Py_TYPE(op));
    if (ia_notebook_has(&w->roots->notebook, op)) {
        ia_notebook_traverse(&w->roots->notebook, op, visit, w);
        return;
    }
    if (PyDict_CheckExact(op) && expand_namespace(w, op))
        return;
    if (kind == IA_KIND_NDARRAY) {
        expand_array(w, op);
        return;
    }
    if (kind == IA_KIND_MODULE || kind == IA_KIND_OPTIMIZER) {
        if (w->marks == NULL)
            ia_purpose_note(w->storages, op, kind);
    } else if (kind != IA_KIND_PLAIN) {
        ia_the_framework->expand_object(op, (ia_kind)kind, &w->sink);
    }
    /* What an optimizer updates is the model's, and goes by its names, as the
     * object that a method is bound to goes by its own; what is a key goes by
     * the name that it has elsewhere. */
    visitproc how = kind == IA_KIND_TENSOR ? visit_but_node
                    : kind == IA_KIND_OPTIMIZER || is_bound(op)
                        ? visit_later
                    : w->puts_off && has_tensors_for_keys(op)
                        ? visit_tensors_later
                        : visit;
    if (!ia_can_traverse(op))
        return;
    ia_walk_traverse(w, op, how, w);
    if (ia_is_generator(op))
        expand_running(w, op);
}

void
ia_walk_expand(ia_walk *w, uintptr_t ref)
{
    switch (IA_TAG(ref)) {
    case IA_TAG_NODE:
        w->nodes++;
        ia_the_framework->expand_node((void *)IA_ADDRESS(ref), &w->sink);
        break;
    case IA_TAG_CROWD:
        expand_crowd(w, (const ia_crowd *)IA_ADDRESS(ref));
        break;
    case IA_TAG_FRAME:
        expand_frame(w, (ia_frame *)IA_ADDRESS(ref));
        break;
    case IA_TAG_MEMORY:
        expand_memory(w, IA_ADDRESS(ref));
        break;
    default:
        expand_object(w, (PyObject *)ref);
    }
    look_at_awaited(w);
    note_unmarked(w);
}

void
ia_walk_step(ia_walk *w)
{
    if (w->head + PREFETCH < w->count)
        __builtin_prefetch(
            (char *)IA_ADDRESS(w->queue[w->head + PREFETCH].ref) - 16);
    w->parent = w->head++;
    uintptr_t ref = w->queue[w->parent].ref;
    w->first_cut = ia_cuts_at(w, ref);
    /* A cut without a child: all that `ref` holds is cut away. */
    if (!ia_cuts_have(w, w->first_cut, 0))
        ia_walk_expand(w, ref);
}

/* A second pass asks what is reached, not by which path: last in, first out,
 * while its header is still in the cache, and with a short queue. */
static void
mark_all(ia_walk *w)
{
    while (w->count > 0 && !w->failed) {
        uintptr_t ref = w->queue[--w->count].ref;
        w->first_cut = ia_cuts_at(w, ref);
        if (!ia_cuts_have(w, w->first_cut, 0))
            ia_walk_expand(w, ref);
    }
}

void
ia_walk_run(ia_walk *w)
{
    if (w->marks != NULL)
        mark_all(w);
    while (w->head < w->count && !w->failed)
        ia_walk_step(w);
    note_unmarked(w); /* a seed, where there was nothing else */
    w->parent = IA_NO_ENTRY;
    w->first_cut = IA_PTRMAP_NONE;
}

static void
follow_put_off(ia_walk *w, ia_put_off one)
{
    w->parent = one.parent;
    w->first_cut = ia_cuts_at(w, w->queue[w->parent].ref);
    if (IA_TAG(one.ref) != IA_TAG_NODE)
        look_at(w, (PyObject *)one.ref);
    else if (!met_before(w, one.ref))
        push(w, one.ref, w->parent, 0);
}

/* Those of a later turn once nothing is left of the earlier ones. */
void
ia_walk_run_put_off(ia_walk *w)
{
    ia_turn turn = 0;
    while (turn < IA_TURNS) {
        ia_put_offs *those = &w->put_off[turn++];
        uint32_t end = those->count;
        if (those->next == end)
            continue;
        while (those->next < end)
            follow_put_off(w, those->items[those->next++]);
        if (those->next == those->count)
            those->next = those->count = 0;
        ia_walk_run(w);
        turn = 0;
    }
}
