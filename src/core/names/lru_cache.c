/* Names for what functools.lru_cache holds: by the arguments of the call. */

#include "../base/compat.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "lru_cache.h"

#include <stdio.h>
#include <string.h>

static const ia_reading plain = {IA_READ_PLAIN, NULL};

/* They are in the closure of its cache_parameters(). */
PyObject *
ia_lru_parameter(PyObject *op, const char *name)
{
    PyObject *f = ia_instance_attribute(op, "cache_parameters");
    if (f == NULL || !PyFunction_Check(f))
        return NULL;
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)f)->func_code;
    PyObject *closure = ((PyFunctionObject *)f)->func_closure;
    int first = code->co_nlocalsplus - code->co_nfreevars, cell;
    for (int i = 0; closure != NULL && i < code->co_nfreevars; i++) {
        PyObject *variable = ia_code_slot_name(code, first + i, &cell);
        if (PyUnicode_CompareWithASCIIString(variable, name) == 0)
            return PyCell_GET(PyTuple_GET_ITEM(closure, i));
    }
    return NULL;
}

/* What a key is made of: positions, a mark, then name and value in turns,
 * then the types of all of them where the cache is typed. */
typedef struct {
    Py_ssize_t positions, names;
} arguments;

static arguments
arguments_of(PyObject *key, PyObject *cache)
{
    PyObject *typed = ia_lru_parameter(cache, "typed");
    Py_ssize_t n = PyTuple_GET_SIZE(key), mark = 0;
    while (mark < n &&
           !Py_IS_TYPE(PyTuple_GET_ITEM(key, mark), &PyBaseObject_Type))
        mark++;
    if (mark == n)
        return (arguments){typed == Py_True ? n / 2 : n, 0};
    Py_ssize_t rest = n - mark - 1;
    return (arguments){mark, typed == Py_True ? (rest - mark) / 3 : rest / 2};
}

#define MAX_ARGUMENTS 6

static void
append(char *buf, size_t size, const char *text)
{
    size_t used = strlen(buf);
    snprintf(buf + used, size - used, "%s", text);
}

static void
append_value(char *buf, size_t size, PyObject *value)
{
    char text[160], type[100];
    if (!ia_key_text(value, text, sizeof text)) {
        ia_ref_type_name((uintptr_t)value, type, sizeof type);
        snprintf(text, sizeof text, "<%s>", type);
    }
    append(buf, size, text);
}

static void
set_arguments(PyObject *key, PyObject *cache, char *buf, size_t size)
{
    arguments a = arguments_of(key, cache);
    PyObject **items = ((PyTupleObject *)key)->ob_item;
    for (Py_ssize_t i = 0; i < a.positions + a.names; i++) {
        append(buf, size, i ? ", " : "");
        if (i == MAX_ARGUMENTS) {
            append(buf, size, "...");
            return;
        }
        if (i < a.positions) {
            append_value(buf, size, items[i]);
            continue;
        }
        PyObject **pair = items + a.positions + 1 + 2 * (i - a.positions);
        append(buf, size, ia_utf8(pair[0]));
        append(buf, size, "=");
        append_value(buf, size, pair[1]);
    }
}

static ia_reading
set_entry(PyObject *key, PyObject *cache, ia_edge_text *out)
{
    char text[240] = "";
    if (PyTuple_CheckExact(key))
        set_arguments(key, cache, text, sizeof text);
    else
        append_value(text, sizeof text, key);
    return ia_edge_set(out, "lru_cache", 0, ".<cache>(%s)", text);
}

/* The entries come first: key, result and the type of the link, in turns. */
typedef struct {
    PyObject *child, *key, *result, *found;
    Py_ssize_t position;
    int over;
} entry_search;

static int
next_of_entry(PyObject *op, void *arg)
{
    entry_search *s = arg;
    switch (s->over ? 0 : s->position++ % 3) {
    case 0:
        s->key = op;
        break;
    case 1:
        s->result = op;
        break;
    default:
        s->over = !PyType_Check(op) || strcmp(((PyTypeObject *)op)->tp_name,
                                              "functools._lru_list_elem") != 0;
        if (!s->over && !s->found &&
            (s->result == s->child || s->key == s->child))
            s->found = s->key;
    }
    return 0;
}

static int
visit_but_type(PyObject *op, void *arg)
{
    PyObject **all = arg; /* the type, and the search */
    return op == all[0] ? 0 : next_of_entry(op, all[1]);
}

ia_reading
ia_name_in_lru_cache(PyObject *op, PyObject *child, ia_edge_text *out)
{
    entry_search s = {.child = child};
    void *all[] = {Py_TYPE(op), &s};
    Py_TYPE(op)->tp_traverse(op, visit_but_type, all);
    if (s.found == child && PyTuple_CheckExact(child))
        return ia_edge_pass(out, IA_READ_ARGUMENTS, op);
    if (s.found != NULL)
        return set_entry(s.found, op, out);
    if (child == ia_instance_attribute(op, "__wrapped__"))
        return ia_edge_set(out, "attribute", 1, ".__wrapped__");
    if (PyDict_CheckExact(child) && child != ia_get_instance_dict(op))
        return ia_edge_pass(out, IA_READ_ENTRIES, op);
    return plain;
}

ia_reading
ia_name_lru_entry(PyObject *dict, PyObject *child, PyObject *cache, ia_edge_text *out)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        if (value == child)
            return set_entry(key, cache, out);
        if (key == child && PyTuple_CheckExact(key))
            return ia_edge_pass(out, IA_READ_ARGUMENTS, cache);
    }
    return plain;
}

ia_reading
ia_name_lru_argument(PyObject *key, PyObject *child, PyObject *cache,
              ia_edge_text *out)
{
    arguments a = arguments_of(key, cache);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        if (PyTuple_GET_ITEM(key, i) != child)
            continue;
        if (i < a.positions)
            return ia_edge_set(out, "lru_cache", 0, ".<cache>.<argument %zd>",
                               i);
        return ia_edge_set(out, "lru_cache", 0, ".<cache>.<argument %s>",
                           ia_utf8(PyTuple_GET_ITEM(key, i - 1)));
    }
    return plain;
}
