/* Objects, read without running any code of theirs. */

#include "compat.h"
#include "read.h"

#include <string.h>

PyObject *
ia_dict_value(PyObject *dict, const char *name)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (dict != NULL && PyDict_Next(dict, &pos, &key, &value))
        if (PyUnicode_Check(key) &&
            PyUnicode_CompareWithASCIIString(key, name) == 0)
            return value;
    return NULL;
}

PyObject *
ia_instance_attribute(PyObject *op, const char *name)
{
    ia_inline_values v;
    if (ia_get_inline_values(op, &v)) {
        for (Py_ssize_t i = 0; i < v.count; i++) {
            PyObject *key = ia_inline_name(&v, i);
            if (key != NULL && v.values[i] != NULL &&
                PyUnicode_CompareWithASCIIString(key, name) == 0)
                return v.values[i];
        }
        return NULL;
    }
    return ia_dict_value(ia_get_instance_dict(op), name);
}

const char *
ia_utf8(PyObject *op)
{
    const char *text = op && PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : NULL;
    if (text == NULL)
        PyErr_Clear();
    return text ? text : "?";
}

const char *
ia_text(PyObject *op, char *buf, size_t size)
{
    const char *text = op && PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : NULL;
    if (text != NULL)
        return text;
    PyErr_Clear();
    return ia_text_copy(op, buf, size);
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

PyTypeObject *
ia_mro_item(PyTypeObject *type, Py_ssize_t i)
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
    for (Py_ssize_t i = 0; (t = ia_mro_item(type, i)) != NULL; i++) {
        PyObject *found = ia_dict_value(ia_type_dict(t), name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

PyTypeObject *
ia_base_named(PyTypeObject *type, const char *name)
{
    PyTypeObject *t;
    for (Py_ssize_t i = 0; (t = ia_mro_item(type, i)) != NULL; i++)
        if (strcmp(t->tp_name, name) == 0)
            return t;
    return NULL;
}

/* Its own, or a base's: from 3.14 on a Task has a Future's result. */
static PyGetSetDef *
getter_of(PyTypeObject *type, const char *name)
{
    for (; type != NULL; type = type->tp_base)
        for (PyGetSetDef *g = type->tp_getset; g != NULL && g->name; g++)
            if (strcmp(g->name, name) == 0)
                return g;
    return NULL;
}

int
ia_getter_gives(PyTypeObject *type, PyObject *op, const char *name,
                PyObject *child)
{
    PyGetSetDef *g = getter_of(type, name);
    if (g == NULL)
        return 0;
    PyObject *value = g->get(op, g->closure);
    int same = value == child;
    if (value == NULL)
        PyErr_Clear();
    Py_XDECREF(value);
    return same;
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

int
ia_is_plain_iterator(PyObject *op)
{
    const char *name = Py_TYPE(op)->tp_name;
    size_t n = strlen(name);
    if (Py_TYPE(op)->tp_iternext == NULL || PyGen_Check(op))
        return 0;
    if (strncmp(name, "itertools.", 10) == 0 ||
        strncmp(name + (name[0] == '_'), "collections._deque_", 19) == 0)
        return 1;
    if (Py_TYPE(op)->tp_flags & Py_TPFLAGS_HEAPTYPE)
        return 0;
    return (n >= 8 && strcmp(name + n - 8, "iterator") == 0) ||
           strcmp(name, "enumerate") == 0 || strcmp(name, "reversed") == 0 ||
           strcmp(name, "zip") == 0 || strcmp(name, "map") == 0 ||
           strcmp(name, "filter") == 0;
}

/* What a cache of functools' refers to before its search is given up: each of
 * its entries is visited on the way to the dict that counts them. */
#define MOST_CACHE_VISITS 65536

typedef struct {
    PyObject *attributes, *entries; /* borrowed */
    Py_ssize_t left;
} cache_search;

static int
visit_cache(PyObject *op, void *arg)
{
    cache_search *s = arg;
    if (PyDict_CheckExact(op) && op != s->attributes)
        s->entries = op;
    return --s->left == 0;
}

/* Its entries' results are visited first, and its own attributes last. */
static Py_ssize_t
cache_length(PyObject *op)
{
    PyObject **attributes = _PyObject_GetDictPtr(op);
    cache_search s = {attributes ? *attributes : NULL, NULL,
                      MOST_CACHE_VISITS};
    int stopped = Py_TYPE(op)->tp_traverse(op, visit_cache, &s);
    return stopped || s.entries == NULL ? -1
                                        : ((PyDictObject *)s.entries)->ma_used;
}

Py_ssize_t
ia_container_length(PyObject *op)
{
    if (PyList_Check(op) || PyTuple_Check(op) ||
        ia_base_named(Py_TYPE(op), "collections.deque") != NULL)
        return Py_SIZE(op);
    if (PyDict_Check(op))
        return ((PyDictObject *)op)->ma_used;
    if (PyAnySet_Check(op))
        return ((PySetObject *)op)->used;
    if (strcmp(Py_TYPE(op)->tp_name, "functools._lru_cache_wrapper") == 0)
        return cache_length(op);
    return -1;
}

int
ia_is_being_sorted(PyObject *op)
{
    return PyList_Check(op) && ((PyListObject *)op)->allocated < 0;
}
