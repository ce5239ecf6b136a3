/* What a reference of each kind of object is called.
 *
 * Containers answer by position or key, functions by the variable's name,
 * instances by attribute, C types by their member tables; what is left falls
 * back to the type of the object it leads to.
 */

#include "compat.h"
#include "edge_kinds.h"
#include "edges.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <structmember.h>

static const ia_reading plain = {IA_READ_PLAIN, NULL};

ia_reading
ia_edge_set(ia_edge_text *out, const char *kind, int python,
            const char *format, ...)
{
    va_list args;
    out->kind = kind;
    out->python = python;
    va_start(args, format);
    vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
    return plain;
}

/* A step that shows nothing: the next one carries the name. */
static ia_reading
pass(ia_edge_text *out, ia_how how, PyObject *owner)
{
    out->text[0] = 0;
    return (ia_reading){how, owner};
}

static const char *
utf8(PyObject *op)
{
    const char *text = op && PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : NULL;
    if (text == NULL)
        PyErr_Clear();
    return text ? text : "?";
}

static int
is_identifier(PyObject *op)
{
    return PyUnicode_CheckExact(op) && PyUnicode_IsIdentifier(op) == 1;
}

/* -- keys ---------------------------------------------------------------- */

#define MAX_KEY_TEXT 72
#define MAX_KEY_ITEMS 6

static int
is_literal(PyObject *key, int depth)
{
    if (PyUnicode_CheckExact(key))
        return PyUnicode_GET_LENGTH(key) <= MAX_KEY_TEXT;
    if (PyBytes_CheckExact(key))
        return PyBytes_GET_SIZE(key) <= MAX_KEY_TEXT;
    if (PyTuple_CheckExact(key) && depth < 3) {
        Py_ssize_t n = PyTuple_GET_SIZE(key);
        for (Py_ssize_t i = 0; i < n; i++)
            if (!is_literal(PyTuple_GET_ITEM(key, i), depth + 1))
                return 0;
        return n <= MAX_KEY_ITEMS;
    }
    if (PyLong_CheckExact(key))
        return Py_SIZE(key) > -8 && Py_SIZE(key) < 8;
    return key == Py_None || PyBool_Check(key) || PyFloat_CheckExact(key);
}

int
ia_key_text(PyObject *key, char *buf, size_t size)
{
    if (is_literal(key, 0)) {
        PyObject *text = PyObject_Repr(key); /* exact built-in types only */
        if (text != NULL && PyUnicode_GET_LENGTH(text) < (Py_ssize_t)size / 4) {
            snprintf(buf, size, "%s", utf8(text));
            Py_DECREF(text);
            return 1;
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
    char type[100];
    ia_ref_type_name((uintptr_t)key, type, sizeof type);
    snprintf(buf, size, "<key of type %s>", type);
    return 0;
}

/* -- dicts and attributes ------------------------------------------------ */

static ia_reading
set_attribute(ia_edge_text *out, PyObject *key)
{
    if (PyUnicode_Check(key) && is_identifier(key))
        return ia_edge_set(out, "attribute", 1, ".%s", utf8(key));
    char text[200];
    ia_key_text(key, text, sizeof text);
    return ia_edge_set(out, "attribute", 1, ".__dict__[%s]", text);
}

/* A child of an nn.Module reads as an attribute, though it lives in one of
 * the module's three dicts. */
static ia_reading
set_child(ia_edge_text *out, PyObject *key, PyObject *owner)
{
    if (is_identifier(key))
        return ia_edge_set(out, "attribute", 1, ".%s", utf8(key));
    (void)owner;
    char text[200];
    ia_key_text(key, text, sizeof text);
    return ia_edge_set(out, "attribute", 1, "._modules[%s]", text);
}

static int
is_child_dict(PyObject *key)
{
    return PyUnicode_CheckExact(key) &&
           (PyUnicode_CompareWithASCIIString(key, "_modules") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_parameters") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_buffers") == 0);
}

/* Names an attribute of `owner`; hides the dicts of an nn.Module. */
static ia_reading
name_attribute(PyObject *owner, PyObject *key, PyObject *value,
               ia_edge_text *out)
{
    if (owner != NULL && ia_kind_of(Py_TYPE(owner)) == IA_KIND_MODULE &&
        PyDict_Check(value) && is_child_dict(key))
        return pass(out, IA_READ_CHILDREN, owner);
    return set_attribute(out, key);
}

static ia_reading
name_key(PyObject *dict, PyObject *child, ia_edge_text *out)
{
    char text[240];
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value == child) {
            int python = ia_key_text(key, text, sizeof text);
            return ia_edge_set(out, "key", python, "[%s]", text);
        }
        if (key == child) {
            char type[100];
            ia_ref_type_name((uintptr_t)key, type, sizeof type);
            return ia_edge_set(out, "dict key", 0, ".<key: %s>", type);
        }
    }
    return plain;
}

static ia_reading
name_in_dict(PyObject *dict, PyObject *child, ia_reading reading,
             ia_edge_text *out)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (reading.how != IA_READ_ATTRIBUTES && reading.how != IA_READ_CHILDREN)
        return name_key(dict, child, out);
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value != child)
            continue;
        return reading.how == IA_READ_CHILDREN
                   ? set_child(out, key, reading.owner)
                   : name_attribute(reading.owner, key, value, out);
    }
    return name_key(dict, child, out);
}

static int
name_instance(PyObject *op, PyObject *child, ia_edge_text *out,
              ia_reading *next)
{
    ia_inline_values v;
    if (ia_get_inline_values(op, &v)) {
        for (Py_ssize_t i = 0; i < v.count; i++) {
            if (v.values[i] != child || ia_inline_name(&v, i) == NULL)
                continue;
            *next = name_attribute(op, ia_inline_name(&v, i), child, out);
            return 1;
        }
    }
    if (ia_get_instance_dict(op) == child) {
        *next = pass(out, IA_READ_ATTRIBUTES, op);
        return 1;
    }
    return 0;
}

/* Slots of Python classes and object members of C types: both are in the
 * member tables along the MRO. */
static int
name_in_members(const PyMemberDef *m, PyObject *op, PyObject *child,
                ia_edge_text *out)
{
    for (; m != NULL && m->name != NULL; m++) {
        if (m->type != T_OBJECT && m->type != T_OBJECT_EX)
            continue;
        if (*(PyObject **)((char *)op + m->offset) == child) {
            ia_edge_set(out, "attribute", 1, ".%s", m->name);
            return 1;
        }
    }
    return 0;
}

static int
name_member(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject *mro = Py_TYPE(op)->tp_mro;
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *t = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (PyType_Check((PyObject *)t) &&
            name_in_members(t->tp_members, op, child, out))
            return 1;
    }
    return 0;
}

/* -- sequences ----------------------------------------------------------- */

static ia_reading
name_index(PyObject **items, Py_ssize_t n, PyObject *child, ia_edge_text *out)
{
    for (Py_ssize_t i = 0; i < n; i++)
        if (items[i] == child)
            return ia_edge_set(out, "index", 1, "[%zd]", i);
    return plain;
}

typedef struct {
    PyObject *child, *type, *last, *before;
    Py_ssize_t position, found;
} position_search;

static int
count_visit(PyObject *op, void *arg)
{
    position_search *s = arg;
    if (op == s->type)
        return 0;
    if (op == s->child && s->found < 0) {
        s->found = s->position;
        s->before = s->last;
    }
    s->last = op;
    s->position++;
    return 0;
}

Py_ssize_t
ia_visit_position(traverseproc traverse, PyObject *parent, PyObject *child,
                  PyObject **before)
{
    position_search s = {child, (PyObject *)Py_TYPE(parent), NULL, NULL, 0,
                         -1};
    traverse(parent, count_visit, &s);
    if (before != NULL)
        *before = s.before;
    return s.found;
}

/* -- functions, frames, exceptions --------------------------------------- */

static ia_reading
name_in_function(PyFunctionObject *f, PyObject *child, ia_edge_text *out)
{
    if (child == f->func_closure)
        return pass(out, IA_READ_CLOSURE, (PyObject *)f);
    if (child == f->func_dict)
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    if (child == f->func_defaults)
        return ia_edge_set(out, "default", 1, ".__defaults__");
    if (child == f->func_kwdefaults)
        return ia_edge_set(out, "default", 1, ".__kwdefaults__");
    if (child == f->func_annotations)
        return ia_edge_set(out, "annotation", 1, ".__annotations__");
    if (child == f->func_globals)
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    return plain;
}

static ia_reading
name_in_closure(PyObject *tuple, PyObject *child, PyObject *owner,
                ia_edge_text *out)
{
    PyCodeObject *code =
        (PyCodeObject *)((PyFunctionObject *)owner)->func_code;
    int first = code->co_nlocalsplus - code->co_nfreevars, cell;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (PyTuple_GET_ITEM(tuple, i) != child)
            continue;
        PyObject *name = ia_code_slot_name(code, first + (int)i, &cell);
        ia_edge_set(out, "closure", 0, ".<closure>.%s", utf8(name));
        return (ia_reading){IA_READ_CONTENTS, NULL};
    }
    return plain;
}

ia_reading
ia_name_local(ia_frame *frame, PyObject *child, int behind, ia_edge_text *out)
{
    PyCodeObject *code = ia_frame_code(frame);
    int slots = ia_frame_slots(frame), cell = 0;
    if (child == ia_frame_locals(frame))
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    if (child == ia_frame_function(frame))
        return ia_edge_set(out, "function", 0, ".<function>");
    if (child == ia_frame_object(frame))
        return ia_edge_set(out, "frame object", 0, ".<frame>");
    for (int i = 0; i < slots; i++) {
        if (ia_frame_slot(frame, i) != child)
            continue;
        PyObject *name = ia_code_slot_name(code, i, &cell);
        if (name == NULL)
            return ia_edge_set(out, "temporary", 0, ".<temporary>");
        ia_edge_set(out, "local", 0, behind ? ".<locals>.%s" : ".%s",
                    utf8(name));
        return (ia_reading){
            cell && PyCell_Check(child) ? IA_READ_CONTENTS : IA_READ_PLAIN,
            NULL};
    }
    return plain;
}

static ia_reading
name_in_frame_object(PyObject *op, PyObject *child, ia_edge_text *out)
{
    ia_frame *frame = ia_frame_of_object(op);
    ia_reading next = frame ? ia_name_local(frame, child, 1, out) : plain;
    if (strcmp(out->kind, "local") != 0)
        return next;
    char name[240];
    snprintf(name, sizeof name, "%s", out->text + strlen(".<locals>."));
    ia_edge_set(out, "local", 1, ".f_locals['%s']", name);
    return next;
}

static ia_reading
name_in_generator(PyObject *op, PyObject *child, ia_edge_text *out)
{
    int running;
    ia_frame *frame = ia_generator_frame(op, &running);
    return frame ? ia_name_local(frame, child, 1, out) : plain;
}

static ia_reading
name_in_exception(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyBaseExceptionObject *e = (PyBaseExceptionObject *)op;
    if (child == e->traceback)
        return ia_edge_set(out, "traceback", 1, ".__traceback__");
    if (child == e->context)
        return ia_edge_set(out, "attribute", 1, ".__context__");
    if (child == e->cause)
        return ia_edge_set(out, "attribute", 1, ".__cause__");
    if (child == e->args)
        return ia_edge_set(out, "attribute", 1, ".args");
    if (child == e->dict)
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    return plain;
}

static ia_reading
name_in_traceback(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTracebackObject *tb = (PyTracebackObject *)op;
    return ia_edge_set(out, "traceback", 1,
                       child == (PyObject *)tb->tb_next ? ".tb_next"
                                                        : ".tb_frame");
}

static ia_reading
name_in_type(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *type = (PyTypeObject *)op;
    if (child == type->tp_dict)
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    if (child == type->tp_mro)
        return ia_edge_set(out, "attribute", 1, ".__mro__");
    if (child == type->tp_bases)
        return ia_edge_set(out, "attribute", 1, ".__bases__");
    if (child == (PyObject *)type->tp_base)
        return ia_edge_set(out, "attribute", 1, ".__base__");
    return plain;
}

/* functools.lru_cache: key, result, type(link) for each entry, in order. */
static ia_reading
name_in_lru_cache(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject *key = NULL;
    char text[240];
    if (ia_visit_position(Py_TYPE(op)->tp_traverse, op, child, &key) < 0 ||
        key == NULL || PyType_Check(key))
        return plain;
    ia_key_text(key, text, sizeof text);
    return ia_edge_set(out, "lru_cache", 0, ".<cache>[%s]", text);
}

/* -- the autograd graph -------------------------------------------------- */

typedef struct {
    ia_sink sink;
    uintptr_t child;
    int found;
    ia_edge_kind kind;
    Py_ssize_t index;
    char name[120];
} graph_search;

static int
match(ia_sink *sink, uintptr_t ref, ia_edge_kind kind, const char *name,
      Py_ssize_t index)
{
    graph_search *s = (graph_search *)sink;
    if (ref != s->child || s->found)
        return 0;
    s->found = 1;
    s->kind = kind;
    s->index = index;
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    return 0;
}

static int
match_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
             Py_ssize_t index)
{
    return match(sink, (uintptr_t)op, kind, name, index);
}

static int
match_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
           Py_ssize_t index)
{
    return match(sink, (uintptr_t)node | IA_TAG_NODE, kind, name, index);
}

static int
match_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
              const char *name, Py_ssize_t index)
{
    (void)sink, (void)storage, (void)kind, (void)name, (void)index;
    return 0;
}

static ia_reading
set_saved(const graph_search *s, const char *what, ia_edge_text *out)
{
    if (s->name[0])
        return ia_edge_set(out, what, 0, ".%s[%s]", what, s->name);
    return ia_edge_set(out, what, 0, ".%s[%zd]", what, s->index);
}

static ia_reading
set_graph_edge(const graph_search *s, ia_edge_text *out)
{
    char node[100];
    switch (s->kind) {
    case IA_EDGE_GRAD_FN:
        ia_ref_type_name(s->child, node, sizeof node);
        return ia_edge_set(out, "grad_fn", 0, ".grad_fn\xE2\x86\x92%s", node);
    case IA_EDGE_NEXT:
    case IA_EDGE_NODE:
        ia_ref_type_name(s->child, node, sizeof node);
        return ia_edge_set(out, "next", 0, "\xE2\x86\x92%s", node);
    case IA_EDGE_SAVED:
        return set_saved(s, "saved", out);
    case IA_EDGE_PACKED:
        return set_saved(s, "packed", out);
    case IA_EDGE_VARIABLE:
        return ia_edge_set(out, "variable", 0, ".variable");
    case IA_EDGE_GRAD:
        return ia_edge_set(out, "grad", 1, ".grad");
    case IA_EDGE_BASE:
        return ia_edge_set(out, "base", 1, "._base");
    case IA_EDGE_HOOK:
        return ia_edge_set(out, "hook", 0, ".<hook>");
    case IA_EDGE_FUNCTION:
        return ia_edge_set(out, "ctx", 0, ".<ctx>");
    case IA_EDGE_STORAGE:
        return ia_edge_set(out, "storage", 0, ".<storage>");
    }
    return plain;
}

static graph_search
start_search(uintptr_t child)
{
    return (graph_search){
        .sink = {match_object, match_node, match_storage},
        .child = child,
    };
}

ia_reading
ia_name_graph_edge(uintptr_t parent, uintptr_t child, ia_edge_text *out)
{
    graph_search s = start_search(child);
    ia_the_framework->expand_node((void *)IA_ADDRESS(parent), &s.sink);
    if (s.found)
        return set_graph_edge(&s, out);
    return ia_edge_set(out, "reference", 0, ".<held>");
}

static int
name_framework_edge(PyObject *op, int kind, uintptr_t child,
                    ia_edge_text *out)
{
    graph_search s = start_search(child);
    ia_the_framework->expand_object(op, (ia_kind)kind, &s.sink);
    if (s.found)
        set_graph_edge(&s, out);
    return s.found;
}

/* -- all together -------------------------------------------------------- */

static ia_reading
name_array_edge(PyObject *op, PyObject *child, ia_edge_text *out)
{
    Py_ssize_t i = ia_visit_position(ia_ndarray_traverse, op, child, NULL);
    PyObject *base = NULL;
    (void)base;
    if (i == 0)
        return ia_edge_set(out, "base", 1, ".base");
    return ia_edge_set(out, "index", 0, ".flat[%zd]", i);
}

static int
is_named(PyTypeObject *type, const char *name)
{
    return strcmp(type->tp_name, name) == 0;
}

static ia_reading
name_builtin(PyObject *op, PyObject *child, ia_reading reading,
             ia_edge_text *out)
{
    PyTypeObject *type = Py_TYPE(op);
    if (PyTuple_Check(op) && reading.how == IA_READ_CLOSURE)
        return name_in_closure(op, child, reading.owner, out);
    if (PyDict_Check(op))
        return name_in_dict(op, child, reading, out);
    if (PyList_Check(op))
        return name_index(((PyListObject *)op)->ob_item, PyList_GET_SIZE(op),
                          child, out);
    if (PyTuple_Check(op))
        return name_index(((PyTupleObject *)op)->ob_item,
                          PyTuple_GET_SIZE(op), child, out);
    if (PyFunction_Check(op))
        return name_in_function((PyFunctionObject *)op, child, out);
    if (PyCell_Check(op))
        return reading.how == IA_READ_CONTENTS
                   ? pass(out, IA_READ_PLAIN, NULL)
                   : ia_edge_set(out, "cell", 1, ".cell_contents");
    if (PyFrame_Check(op))
        return name_in_frame_object(op, child, out);
    if (PyGen_Check(op) || PyCoro_CheckExact(op) || PyAsyncGen_CheckExact(op))
        return name_in_generator(op, child, out);
    if (PyExceptionInstance_Check(op))
        return name_in_exception(op, child, out);
    if (PyTraceBack_Check(op))
        return name_in_traceback(op, child, out);
    if (PyType_Check(op))
        return name_in_type(op, child, out);
    if (PyModule_Check(op) && PyModule_GetDict(op) == child)
        return pass(out, IA_READ_ATTRIBUTES, NULL);
    if (PyAnySet_Check(op))
        return ia_edge_set(out, "member", 0, ".<member>");
    if (Py_IS_TYPE(op, &PyDictProxy_Type))
        return pass(out, IA_READ_PLAIN, NULL);
    if (PyWeakref_Check(op))
        return ia_edge_set(out, "callback", 1, ".__callback__");
    if (is_named(type, "functools._lru_cache_wrapper"))
        return name_in_lru_cache(op, child, out);
    return plain;
}

/* A deque visits its items in order; a subclass has attributes besides. */
static int
name_deque(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject *mro = Py_TYPE(op)->tp_mro;
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *t = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (!is_named(t, "collections.deque"))
            continue;
        Py_ssize_t at = ia_visit_position(t->tp_traverse, op, child, NULL);
        if (at >= 0)
            ia_edge_set(out, "index", 1, "[%zd]", at);
        return at >= 0;
    }
    return 0;
}

static void
name_by_type(uintptr_t child, ia_edge_text *out)
{
    char type[128];
    ia_ref_type_name(child, type, sizeof type);
    ia_edge_set(out, "reference", 0, ".<%s>", type);
}

ia_reading
ia_name_object_edge(PyObject *parent, uintptr_t child, ia_reading reading,
                    ia_edge_text *out)
{
    ia_reading next = plain;
    int kind = ia_kind_of(Py_TYPE(parent));
    if (kind != IA_KIND_PLAIN && kind < IA_KIND_NDARRAY &&
        name_framework_edge(parent, kind, child, out))
        return plain;
    if (IA_TAG(child) != IA_TAG_OBJECT) {
        name_by_type(child, out);
        return plain;
    }
    PyObject *op = (PyObject *)child;
    if (kind == IA_KIND_NDARRAY)
        return name_array_edge(parent, op, out);
    next = name_builtin(parent, op, reading, out);
    if (out->text[0] || next.how != IA_READ_PLAIN ||
        (PyCell_Check(parent) && reading.how == IA_READ_CONTENTS) ||
        Py_IS_TYPE(parent, &PyDictProxy_Type))
        return next;
    if (name_instance(parent, op, out, &next))
        return next;
    if (name_member(parent, op, out) || name_deque(parent, op, out))
        return plain;
    name_by_type(child, out);
    return plain;
}
