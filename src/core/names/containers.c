/* What a reference is called: instances by attribute, mappings by key,
 * sequences by position, C types by their member tables; what is left falls
 * back to the type of the object it leads to.
 */

#include "../base/compat.h"
#include "containers.h"
#include "path.h"

#include <math.h>
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
    va_start(args, format);
    int length = vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
    out->kind = kind;
    out->python = python && length < (int)sizeof out->text;
    return plain;
}

ia_reading
ia_edge_pass(ia_edge_text *out, ia_how how, PyObject *owner)
{
    out->text[0] = 0;
    return (ia_reading){how, owner};
}

const char *
ia_utf8(PyObject *op)
{
    const char *text = op && PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : NULL;
    if (text == NULL)
        PyErr_Clear();
    return text ? text : "?";
}

int
ia_is_name(PyObject *op)
{
    static const char *const keywords[] = {
        "False",  "None",     "True",  "and",    "as",       "assert",
        "async",  "await",    "break", "class",  "continue", "def",
        "del",    "elif",     "else",  "except", "finally",  "for",
        "from",   "global",   "if",    "import", "in",       "is",
        "lambda", "nonlocal", "not",   "or",     "pass",     "raise",
        "return", "try",      "while", "with",   "yield"};
    if (!PyUnicode_CheckExact(op) || PyUnicode_IsIdentifier(op) != 1)
        return 0;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (PyUnicode_CompareWithASCIIString(op, keywords[i]) == 0)
            return 0;
    return 1;
}

/* -- keys ---------------------------------------------------------------- */

#define MAX_KEY_TEXT 72
#define MAX_KEY_ITEMS 6
#define MAX_KEY_DIGITS 8

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
        return ia_int_digits(key) < MAX_KEY_DIGITS;
    if (PyFloat_CheckExact(key))
        return isfinite(PyFloat_AS_DOUBLE(key));
    return key == Py_None || PyBool_Check(key);
}

static void
set_weak_key(PyObject *key, char *buf, size_t size)
{
    PyObject *op = ((PyWeakReference *)key)->wr_object;
    char type[100];
    if (op == NULL || op == Py_None) {
        snprintf(buf, size, "<dead weak key>");
        return;
    }
    ia_ref_type_name((uintptr_t)op, type, sizeof type);
    snprintf(buf, size, "<weak key of type %s>", type);
}

int
ia_key_text(PyObject *key, char *buf, size_t size)
{
    if (is_literal(key, 0)) {
        PyObject *text = PyObject_Repr(key); /* exact built-in types only */
        Py_ssize_t room = (Py_ssize_t)size / 4;
        if (text != NULL && PyUnicode_GET_LENGTH(text) < room) {
            snprintf(buf, size, "%s", ia_utf8(text));
            Py_DECREF(text);
            return 1;
        }
        Py_XDECREF(text);
        PyErr_Clear();
    }
    if (PyWeakref_Check(key)) {
        set_weak_key(key, buf, size);
        return 0;
    }
    char type[100];
    ia_ref_type_name((uintptr_t)key, type, sizeof type);
    snprintf(buf, size, "<key of type %s>", type);
    return 0;
}

/* -- classes, read without lookup ---------------------------------------- */

static PyObject *
attribute_in(PyObject *dict, const char *name)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (dict != NULL && PyDict_Next(dict, &pos, &key, &value))
        if (PyUnicode_Check(key) &&
            PyUnicode_CompareWithASCIIString(key, name) == 0)
            return value;
    return NULL;
}

static PyTypeObject *
mro_item(PyTypeObject *type, Py_ssize_t i)
{
    PyObject *mro = type->tp_mro;
    if (mro == NULL || i >= PyTuple_GET_SIZE(mro))
        return NULL;
    PyObject *item = PyTuple_GET_ITEM(mro, i);
    return PyType_Check(item) ? (PyTypeObject *)item : NULL;
}

PyObject *
ia_type_attribute(PyTypeObject *type, const char *name)
{
    PyTypeObject *t;
    for (Py_ssize_t i = 0; (t = mro_item(type, i)) != NULL; i++) {
        PyObject *found = attribute_in(ia_type_dict(t), name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

PyTypeObject *
ia_base_named(PyTypeObject *type, const char *name)
{
    PyTypeObject *t;
    for (Py_ssize_t i = 0; (t = mro_item(type, i)) != NULL; i++)
        if (strcmp(t->tp_name, name) == 0)
            return t;
    return NULL;
}

int
ia_getter_gives(PyTypeObject *type, PyObject *op, const char *name,
                PyObject *child)
{
    for (PyGetSetDef *g = type->tp_getset; g != NULL && g->name; g++) {
        if (strcmp(g->name, name) != 0)
            continue;
        PyObject *value = g->get(op, g->closure);
        int same = value == child;
        if (value == NULL)
            PyErr_Clear();
        Py_XDECREF(value);
        return same;
    }
    return 0;
}

/* -- attributes ---------------------------------------------------------- */

/* Does reading an attribute run code that the class has of its own? */
static int
reads_strangely(PyTypeObject *type)
{
    PyObject *get = ia_type_attribute(type, "__getattribute__");
    return get != NULL && !Py_IS_TYPE(get, &PyWrapperDescr_Type);
}

static int
is_data_descriptor(PyObject *op)
{
    return op != NULL && Py_TYPE(op)->tp_descr_set != NULL;
}

/* Does a class give this value as it is, or what its __get__ makes of it? */
static int
is_given_as_it_is(PyObject *value)
{
    PyTypeObject *t = Py_TYPE(value);
    return t->tp_descr_get == NULL || PyFunction_Check(value) ||
           Py_IS_TYPE(value, &PyProperty_Type) ||
           Py_IS_TYPE(value, &PyClassMethod_Type) ||
           Py_IS_TYPE(value, &PyStaticMethod_Type) ||
           Py_IS_TYPE(value, &PyMethodDescr_Type) ||
           Py_IS_TYPE(value, &PyMemberDescr_Type) ||
           Py_IS_TYPE(value, &PyGetSetDescr_Type) ||
           Py_IS_TYPE(value, &PyWrapperDescr_Type) ||
           strcmp(t->tp_name, "cached_property") == 0 ||
           strcmp(t->tp_name, "functools._lru_cache_wrapper") == 0;
}

/* Would owner.name be this very value?  An owner that is not known is a
 * module or the like. */
static int
reads_back(PyObject *owner, PyObject *key, PyObject *value)
{
    if (owner == NULL)
        return 1;
    PyTypeObject *type = Py_TYPE(owner);
    /* A getter of type's, and yet it gives what lies there. */
    if (PyType_Check(owner) &&
        PyUnicode_CompareWithASCIIString(key, "__annotations__") == 0)
        return 1;
    if (reads_strangely(type) ||
        is_data_descriptor(ia_type_attribute(type, ia_utf8(key))))
        return 0;
    return !PyType_Check(owner) || is_given_as_it_is(value);
}

static ia_reading
set_attribute(PyObject *owner, PyObject *key, PyObject *value,
              ia_edge_text *out)
{
    if (ia_is_name(key))
        return ia_edge_set(out, "attribute", reads_back(owner, key, value),
                           ".%s", ia_utf8(key));
    char text[200];
    int python = ia_key_text(key, text, sizeof text);
    return ia_edge_set(out, "attribute", python, ".__dict__[%s]", text);
}

static int
is_child_dict(PyObject *key)
{
    return PyUnicode_CheckExact(key) &&
           (PyUnicode_CompareWithASCIIString(key, "_modules") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_parameters") == 0 ||
            PyUnicode_CompareWithASCIIString(key, "_buffers") == 0);
}

ia_reading
ia_edge_attribute(PyObject *owner, PyObject *key, PyObject *value,
                  ia_edge_text *out)
{
    int module = owner != NULL && ia_kind_of(Py_TYPE(owner)) == IA_KIND_MODULE;
    if (module && PyDict_Check(value) && is_child_dict(key))
        return ia_edge_pass(out, IA_READ_CHILDREN, owner);
    if (module && !ia_is_name(key))
        return ia_name_module_child(owner, NULL, key, out);
    set_attribute(owner, key, value, out);
    /* A class gives the function in a staticmethod. */
    if (owner != NULL && PyType_Check(owner) &&
        Py_IS_TYPE(value, &PyStaticMethod_Type))
        return (ia_reading){IA_READ_CONTENTS, NULL};
    return plain;
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
            *next = ia_edge_attribute(op, ia_inline_name(&v, i), child, out);
            return 1;
        }
    }
    if (ia_get_instance_dict(op) == child) {
        *next = ia_edge_pass(out, IA_READ_ATTRIBUTES, op);
        return 1;
    }
    return 0;
}

/* Slots of Python classes and object members of C types: both are in the
 * member tables along the MRO. */
static int
name_in_members(PyTypeObject *t, PyObject *op, PyObject *child,
                ia_edge_text *out)
{
    for (PyMemberDef *m = t->tp_members; m != NULL && m->name != NULL; m++) {
        if (m->type != T_OBJECT && m->type != T_OBJECT_EX)
            continue;
        if (*(PyObject **)((char *)op + m->offset) != child)
            continue;
        PyObject *found = ia_type_attribute(Py_TYPE(op), m->name);
        int python = found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type) &&
                     ((PyMemberDescrObject *)found)->d_member == m &&
                     !reads_strangely(Py_TYPE(op));
        ia_edge_set(out, "attribute", python, ".%s", m->name);
        return 1;
    }
    return 0;
}

static int
name_member(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *t;
    for (Py_ssize_t i = 0; (t = mro_item(Py_TYPE(op), i)) != NULL; i++)
        if (name_in_members(t, op, child, out))
            return 1;
    return 0;
}

/* -- mappings ------------------------------------------------------------ */

static ia_reading
name_key(PyObject *dict, PyObject *child, ia_edge_text *out)
{
    char text[240];
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    /* A subclass that has its own [] may give anything. */
    int exact = Py_TYPE(dict)->tp_as_mapping->mp_subscript ==
                PyDict_Type.tp_as_mapping->mp_subscript;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value == child) {
            int python = ia_key_text(key, text, sizeof text);
            return ia_edge_set(out, "key", python && exact, "[%s]", text);
        }
        if (key == child) {
            ia_ref_type_name((uintptr_t)key, text, sizeof text);
            return ia_edge_set(out, "dict key", 0, ".<key: %s>", text);
        }
    }
    return plain;
}

static int
is_private(PyObject *key)
{
    return PyUnicode_CheckExact(key) && PyUnicode_GET_LENGTH(key) > 0 &&
           PyUnicode_READ_CHAR(key, 0) == '_';
}

/* The key of a child among attributes, a public name before a private one. */
static PyObject *
attribute_key(PyObject *dict, PyObject *child)
{
    PyObject *key, *value, *found = NULL;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value != child)
            continue;
        if (!is_private(key))
            return key;
        if (found == NULL)
            found = key;
    }
    return found;
}

static ia_reading
name_in_dict(PyObject *dict, PyObject *child, ia_reading reading,
             ia_edge_text *out)
{
    PyObject *key = NULL;
    if (reading.how == IA_READ_ATTRIBUTES || reading.how == IA_READ_CHILDREN)
        key = attribute_key(dict, child);
    if (key == NULL)
        return name_key(dict, child, out);
    return reading.how == IA_READ_CHILDREN
               ? ia_name_module_child(reading.owner, dict, key, out)
               : ia_edge_attribute(reading.owner, key, child, out);
}

/* -- sequences ----------------------------------------------------------- */

static ia_reading
name_index(PyObject *op, PyObject **items, Py_ssize_t n, PyObject *child,
           const PyTypeObject *base, ia_edge_text *out)
{
    int exact = Py_TYPE(op)->tp_as_mapping->mp_subscript ==
                base->tp_as_mapping->mp_subscript;
    for (Py_ssize_t i = 0; i < n; i++)
        if (items[i] == child)
            return ia_edge_set(out, "index", exact, "[%zd]", i);
    return plain;
}

/* The name of a namedtuple's i-th field, or NULL. */
static PyObject *
field_name(PyObject *op, Py_ssize_t i)
{
    PyObject *fields = PyTuple_CheckExact(op)
                           ? NULL
                           : ia_type_attribute(Py_TYPE(op), "_fields");
    if (fields == NULL || !PyTuple_CheckExact(fields) ||
        i >= PyTuple_GET_SIZE(fields))
        return NULL;
    PyObject *name = PyTuple_GET_ITEM(fields, i);
    PyObject *getter = ia_is_name(name)
                           ? ia_type_attribute(Py_TYPE(op), ia_utf8(name))
                           : NULL;
    const char *type = getter ? Py_TYPE(getter)->tp_name : "";
    return strcmp(type + (type[0] == '_'), "collections._tuplegetter") == 0
               ? name
               : NULL;
}

static ia_reading
name_in_tuple(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject **items = ((PyTupleObject *)op)->ob_item;
    Py_ssize_t n = PyTuple_GET_SIZE(op);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = items[i] == child ? field_name(op, i) : NULL;
        if (name != NULL)
            return ia_edge_set(out, "attribute", !reads_strangely(Py_TYPE(op)),
                               ".%s", ia_utf8(name));
    }
    return name_index(op, items, n, child, &PyTuple_Type, out);
}

typedef struct {
    PyObject *child, *type, *last, *before, *after;
    Py_ssize_t position, found;
} position_search;

static int
count_visit(PyObject *op, void *arg)
{
    position_search *s = arg;
    if (op == s->type)
        return 0;
    if (s->found >= 0 && s->found == s->position - 1)
        s->after = op;
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
                  PyObject **before, PyObject **after)
{
    position_search s = {
        .child = child, .type = (PyObject *)Py_TYPE(parent), .found = -1};
    traverse(parent, count_visit, &s);
    if (before != NULL)
        *before = s.before;
    if (after != NULL)
        *after = s.after;
    return s.found;
}

/* -- all together -------------------------------------------------------- */

static ia_reading
name_container(PyObject *op, PyObject *child, ia_reading reading,
               ia_edge_text *out)
{
    if (PyDict_Check(op))
        return name_in_dict(op, child, reading, out);
    if (PyList_Check(op))
        return name_index(op, ((PyListObject *)op)->ob_item,
                          PyList_GET_SIZE(op), child, &PyList_Type, out);
    if (PyTuple_Check(op))
        return name_in_tuple(op, child, out);
    if (PyModule_Check(op) && PyModule_GetDict(op) == child)
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, NULL);
    if (PyAnySet_Check(op))
        return ia_edge_set(out, "member", 0, ".<member>");
    return plain;
}

/* A deque visits its items in order; a subclass has attributes besides. */
static int
name_deque(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *t = ia_base_named(Py_TYPE(op), "collections.deque");
    Py_ssize_t at =
        t ? ia_visit_position(t->tp_traverse, op, child, NULL, NULL) : -1;
    int exact = t && Py_TYPE(op)->tp_as_sequence->sq_item ==
                         t->tp_as_sequence->sq_item;
    if (at >= 0)
        ia_edge_set(out, "index", exact, "[%zd]", at);
    return at >= 0;
}

static void
name_by_type(uintptr_t child, ia_edge_text *out)
{
    char type[128];
    ia_ref_type_name(child, type, sizeof type);
    ia_edge_set(out, "reference", 0, ".<%s>", type);
}

/* Is it a wrapper whose content has been named by what led to it? */
static int
is_named_already(PyObject *parent, ia_reading reading)
{
    return Py_IS_TYPE(parent, &PyDictProxy_Type) ||
           (reading.how == IA_READ_CONTENTS &&
            (PyCell_Check(parent) ||
             Py_IS_TYPE(parent, &PyStaticMethod_Type) ||
             ia_is_plain_iterator(parent)));
}

ia_reading
ia_name_object_edge(PyObject *parent, uintptr_t child, ia_reading reading,
                    ia_edge_text *out)
{
    ia_reading next = plain;
    int kind = ia_kind_of(Py_TYPE(parent));
    if (kind != IA_KIND_PLAIN && kind < IA_KIND_NDARRAY &&
        ia_name_in_framework(parent, kind, child, out))
        return plain;
    if (IA_TAG(child) != IA_TAG_OBJECT) {
        name_by_type(child, out);
        return plain;
    }
    PyObject *op = (PyObject *)child;
    if (is_named_already(parent, reading))
        return ia_edge_pass(out, IA_READ_PLAIN, NULL);
    if (ia_name_in_code(parent, op, reading, out, &next) ||
        ia_name_in_library(parent, op, reading, out, &next))
        return next;
    next = name_container(parent, op, reading, out);
    if (out->text[0] || next.how != IA_READ_PLAIN)
        return next;
    if (name_instance(parent, op, out, &next))
        return next;
    if (!name_member(parent, op, out) && !name_deque(parent, op, out))
        name_by_type(child, out);
    return plain;
}
