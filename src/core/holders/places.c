/* Where, among what one thing shows, another is. */

#include "../base/compat.h"
#include "places.h"

#include "../base/frameworks.h"
#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../ledger/frames.h"

static int
meet(PyObject *op, void *arg)
{
    ia_search *s = arg;
    if (s->count == s->place)
        s->there = (uintptr_t)op;
    if ((uintptr_t)op == s->wanted &&
        (s->found < 0 || s->count == s->place))
        s->found = s->count;
    s->count++;
    return s->found >= 0 && s->count > s->place;
}

static void
search_frame(ia_search *s, ia_frame *frame)
{
    int slots = ia_frame_slots(frame);
    for (int i = 0; i < slots; i++)
        if (meet(ia_frame_slot(frame, i), s))
            return;
    if (!meet(ia_frame_locals(frame), s) &&
        !meet(ia_frame_function(frame), s))
        meet((PyObject *)ia_frame_object(frame), s);
}

static ia_frame *
frame_inside(PyObject *op)
{
    int running;
    return ia_is_generator(op) ? ia_generator_frame(op, &running) : NULL;
}

/* No hash is -1, so that no mark is 0. */
uintptr_t
ia_key_mark(PyObject *key)
{
    if (PyLong_CheckExact(key) || PyUnicode_CheckExact(key))
        return (uintptr_t)PyObject_Hash(key) + 1;
    return (uintptr_t)key;
}

/* Lists and tuples show their last item first, and grow at that end: a place in
 * them is an index. */
static void
search_items(ia_search *s, PyObject *op)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(op); i++)
        if (meet(PySequence_Fast_GET_ITEM(op, i), s))
            return;
}

/* Whether the search is over. */
static int
meet_named(ia_search *s, PyObject *key, PyObject *value, Py_ssize_t at)
{
    uintptr_t mark = ia_key_mark(key);
    if (mark == s->key)
        s->there = (uintptr_t)value;
    if ((uintptr_t)value == s->wanted && (s->found < 0 || mark == s->key)) {
        s->found = at;
        s->found_key = mark;
    }
    return s->found >= 0 && (s->key == 0 || s->there != 0);
}

/* A place in a dict is a key; a key itself has the place that it is shown at. */
static void
search_dict(ia_search *s, PyObject *op)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(op, &at, &key, &value))
        if (meet_named(s, key, value, at))
            return;
    if (s->key == 0 && s->found < 0)
        Py_TYPE(op)->tp_traverse(op, meet, s);
}

/* Attributes that lie in the instance; its type and its slots have the place
 * that they are shown at. */
static void
search_instance(ia_search *s, PyObject *op)
{
    ia_inline_values v;
    if (ia_get_inline_values(op, &v))
        for (Py_ssize_t i = 0; i < v.count; i++) {
            PyObject *key = ia_inline_name(&v, i);
            if (key != NULL && v.values[i] != NULL &&
                meet_named(s, key, v.values[i], i))
                return;
        }
    if (s->key == 0 && s->found < 0)
        Py_TYPE(op)->tp_traverse(op, meet, s);
}

typedef struct {
    ia_sink sink;
    ia_search *search;
} search_sink;

static int
meet_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
            Py_ssize_t index)
{
    (void)kind, (void)name, (void)index;
    return meet(op, ((search_sink *)sink)->search);
}

/* A tensor's gradient has the place that it is shown at, behind all that
 * tp_traverse shows. */
static void
search_tensor(ia_search *s, PyObject *op)
{
    search_sink sink = {{meet_object, ia_pass_node, ia_pass_storage, NULL},
                        s};
    search_instance(s, op);
    if (s->key == 0 && s->found < 0)
        ia_the_framework->expand_object(op, IA_KIND_TENSOR, &sink.sink);
}

/* What the framework knows beyond tp_traverse may change under us: it is asked
 * for where nothing does.  A generator's tp_traverse shows no variable while
 * it runs. */
static void
search_object(ia_search *s, PyObject *op, int still)
{
    PyTypeObject *type = Py_TYPE(op);
    int kind = ia_kind_of(type);
    ia_frame *frame = frame_inside(op);
    if (frame != NULL)
        search_frame(s, frame);
    else if (PyList_CheckExact(op) || PyTuple_CheckExact(op))
        search_items(s, op);
    else if (PyDict_CheckExact(op))
        search_dict(s, op);
    else if (kind == IA_KIND_NDARRAY)
        ia_ndarray_traverse(op, meet, s);
    else if (kind > IA_KIND_PLAIN && kind < IA_KIND_NDARRAY && !still)
        return; /* another thread may be changing it */
    else if (kind == IA_KIND_TENSOR)
        search_tensor(s, op);
    else if (type->tp_traverse != NULL && ia_is_gc(op))
        search_instance(s, op);
}

void
ia_search_in(uintptr_t parent, ia_search *s, int still)
{
    s->found = -1;
    switch (IA_TAG(parent)) {
    case IA_TAG_FRAME:
        search_frame(s, (ia_frame *)IA_ADDRESS(parent));
        break;
    case IA_TAG_OBJECT:
        search_object(s, (PyObject *)parent, still);
        break;
    default:
        break;
    }
}

int
ia_has_places(uintptr_t ref)
{
    PyObject *op = (PyObject *)ref;
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return IA_TAG(ref) == IA_TAG_FRAME;
    return PyList_CheckExact(op) || PyTuple_Check(op) || PyDict_CheckExact(op);
}

int
ia_has_names(uintptr_t ref)
{
    PyObject *op = (PyObject *)ref;
    ia_inline_values v;
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return IA_TAG(ref) == IA_TAG_FRAME;
    return PyDict_CheckExact(op) || ia_get_inline_values(op, &v);
}
