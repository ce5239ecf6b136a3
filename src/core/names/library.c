/* Names for what objects of the standard library and NumPy's arrays hold.
 *
 * Their types are known by name.  Where a struct is private, the order in
 * which tp_traverse visits its fields tells them apart, so that a type that
 * lies about its name gets a wrong label at worst.
 */

#include "../base/compat.h"
#include "internal/pycore_context.h"
#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "library.h"
#include "lru_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ia_reading plain = {IA_READ_PLAIN, NULL};

/* A class written in Python has no dot in its tp_name. */
static int
is_named(PyObject *op, const char *name)
{
    return strcmp(Py_TYPE(op)->tp_name, name) == 0 &&
           (strchr(name, '.') != NULL ||
            !(Py_TYPE(op)->tp_flags & Py_TPFLAGS_HEAPTYPE));
}

static int
is_context_tree(PyObject *op)
{
    return strncmp(Py_TYPE(op)->tp_name, "hamt", 4) == 0 &&
           !(Py_TYPE(op)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

static Py_ssize_t
position_of(PyObject *child, PyObject *op)
{
    return ia_visit_position(Py_TYPE(op)->tp_traverse, op, child, NULL, NULL);
}

/* -- iterators ----------------------------------------------------------- */

/* Keeps its iterables side by side in a tuple. */
static int
has_many(PyObject *op)
{
    return is_named(op, "zip") || is_named(op, "map") ||
           is_named(op, "itertools.zip_longest") ||
           is_named(op, "itertools.product");
}

static ia_reading
name_in_iterator(PyObject *op, PyObject *child, ia_edge_text *out)
{
    if (is_named(child, "itertools._tee_dataobject") ||
        ia_is_plain_iterator(child))
        return ia_edge_pass(out, IA_READ_PLAIN, NULL);
    if (PyTuple_CheckExact(child) && has_many(op))
        return position_of(child, op) == 0
                   ? ia_edge_pass(out, IA_READ_ITERABLES, NULL)
                   : ia_edge_set(out, "iterator", 0, ".<last item>");
    if (PyFunction_Check(child) || PyMethod_Check(child) ||
        PyCFunction_Check(child))
        return ia_edge_set(out, "iterator", 0, ".<function>");
    /* What it goes through is an iterator, the other is its own list. */
    if (PyList_CheckExact(child) && is_named(op, "itertools.cycle"))
        return ia_edge_set(out, "iterator", 0, ".<saved>");
    int item = is_named(op, "itertools.repeat") ||
               is_named(op, "itertools._tee_dataobject") ||
               ia_kind_of(Py_TYPE(child)) == IA_KIND_TENSOR;
    return ia_edge_set(out, "iterator", 0, item ? ".<item>" : ".<iterable>");
}

static ia_reading
name_iterable(PyObject *tuple, PyObject *child, ia_edge_text *out)
{
    Py_ssize_t i = 0;
    while (i < PyTuple_GET_SIZE(tuple) && PyTuple_GET_ITEM(tuple, i) != child)
        i++;
    ia_edge_set(out, "iterator", 0, ".<iterable %zd>", i);
    return (ia_reading){IA_READ_CONTENTS, NULL};
}

/* -- contexts ------------------------------------------------------------ */

static ia_reading
set_variable(PyObject *variable, ia_edge_text *out)
{
    char buf[sizeof out->text];
    PyObject *name = ((PyContextVar *)variable)->var_name;
    return ia_edge_set(out, "context", 0, "[<ContextVar '%s'>]",
                       ia_text(name, buf, sizeof buf));
}

/* A context is a tree that visits each value just before its variable. */
static ia_reading
name_in_context(PyObject *op, PyObject *child, ia_edge_text *out)
{
    char buf[sizeof out->text];
    PyObject *before, *after;
    if (is_context_tree(child))
        return ia_edge_pass(out, IA_READ_PLAIN, NULL);
    ia_visit_position(Py_TYPE(op)->tp_traverse, op, child, &before, &after);
    if (PyContextVar_CheckExact(child))
        return ia_edge_set(out, "context", 0, ".<variable '%s'>",
                           ia_text(((PyContextVar *)child)->var_name, buf,
                                   sizeof buf));
    if (after != NULL && PyContextVar_CheckExact(after))
        return set_variable(after, out);
    if (before != NULL && PyContextVar_CheckExact(before))
        return set_variable(before, out);
    return ia_edge_set(out, "context", 0, ".<context>");
}

static ia_reading
name_in_token(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyContextToken *token = (PyContextToken *)op;
    if (child == token->tok_oldval)
        return ia_edge_set(out, "attribute", 1, ".old_value");
    if (child == (PyObject *)token->tok_var)
        return ia_edge_set(out, "attribute", 1, ".var");
    return ia_edge_set(out, "context", 0, ".<context>");
}

/* Up to 3.12 it has a list, from 3.13 on it shows its items itself. */
static ia_reading
name_in_queue(PyObject *op, PyObject *child, ia_edge_text *out)
{
    if (PY_VERSION_HEX < 0x030D0000 && PyList_CheckExact(child))
        return ia_edge_set(out, "queue", 0, ".<queue>");
    return ia_edge_set(out, "queue", 0, ".<queue>[%zd]",
                       position_of(child, op));
}

/* -- threads ------------------------------------------------------------- */

static PyObject *
of_threading(const char *name)
{
    PyObject *module = ia_dict_value(ia_interp_modules(), "threading");
    return module != NULL && PyModule_Check(module)
               ? ia_dict_value(PyModule_GetDict(module), name)
               : NULL;
}

static int
is_main(const PyThreadState *t)
{
    PyObject *thread = of_threading("_main_thread");
    PyObject *ident =
        thread != NULL ? ia_instance_attribute(thread, "_ident") : NULL;
    return ident != NULL && PyLong_CheckExact(ident) &&
           PyLong_AsUnsignedLongMask(ident) == t->thread_id;
}

/* Thread._name of a running thread, or NULL. */
static PyObject *
thread_name(const PyThreadState *t)
{
    PyObject *active = of_threading("_active"), *key, *thread;
    Py_ssize_t pos = 0;
    if (active == NULL || !PyDict_Check(active))
        return NULL;
    while (PyDict_Next(active, &pos, &key, &thread))
        if (PyLong_CheckExact(key) &&
            PyLong_AsUnsignedLongMask(key) == t->thread_id)
            return ia_instance_attribute(thread, "_name");
    return NULL;
}

/* Whose dict of thread-local data has this value? */
static PyThreadState *
thread_with(PyObject *value)
{
    PyThreadState *t = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; t != NULL; t = PyThreadState_Next(t)) {
        PyObject *k, *v;
        Py_ssize_t pos = 0;
        if (ia_local_key(t) == value)
            return t;
        while (t->dict != NULL && PyDict_Next(t->dict, &pos, &k, &v))
            if (v == value)
                return t;
    }
    return NULL;
}

/* What stands for a thread in a threading.local: up to 3.12 it is known by a
 * weak reference. */
static int
is_thread_key(PyObject *key)
{
    return PyWeakref_Check(key) || is_named(key, "_thread._localdummy");
}

/* The main thread's has no name of its own, by whichever thread it is asked. */
static ia_reading
name_thread(PyObject *dict, PyObject *child, ia_edge_text *out)
{
    char buf[sizeof out->text];
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    PyThreadState *t = NULL;
    while (PyDict_Next(dict, &pos, &key, &value))
        if (value == child && is_thread_key(key))
            t = thread_with(PyWeakref_Check(key)
                                ? ((PyWeakReference *)key)->wr_object
                                : key);
    if (t != NULL && is_main(t))
        return ia_edge_pass(out, IA_READ_ATTRIBUTES, NULL);
    PyObject *name = t ? thread_name(t) : NULL;
    if (name != NULL && PyUnicode_CheckExact(name))
        ia_edge_set(out, "thread", 0, ".<thread '%s'>",
                    ia_text(name, buf, sizeof buf));
    else
        ia_edge_set(out, "thread", 0, ".<another thread>");
    return (ia_reading){IA_READ_ATTRIBUTES, NULL};
}

/* It has a dict of one dict a thread. */
static ia_reading
name_in_local(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    (void)op;
    if (PyDict_CheckExact(child) && PyDict_Next(child, &pos, &key, &value) &&
        is_thread_key(key))
        return ia_edge_pass(out, IA_READ_THREADS, NULL);
    return plain;
}

/* -- asyncio, buffers, views --------------------------------------------- */

static ia_reading
name_in_future(PyTypeObject *t, PyObject *op, PyObject *child,
               ia_edge_text *out)
{
    static const char *const fields[] = {"_coro", "_result", "_exception",
                                         "_fut_waiter", "_loop"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (ia_getter_gives(t, op, fields[i], child))
            return ia_edge_set(out, "attribute", Py_IS_TYPE(op, t), ".%s",
                               fields[i]);
    if (PyContext_CheckExact(child))
        return ia_edge_set(out, "context", 0, ".<context>");
    return PyCallable_Check(child)
               ? ia_edge_set(out, "callback", 0, ".<callback>")
               : plain;
}

static ia_reading
name_in_array(PyObject *op, PyObject *child, ia_edge_text *out)
{
    ia_array_place place;
    int exact = is_named(op, "numpy.ndarray") || is_named(op, "numpy.void");
    switch (ia_ndarray_place(op, child, &place)) {
    case IA_IN_ARRAY_BASE:
        return ia_edge_set(out, "base", exact, ".base");
    case IA_IN_ARRAY_ITEM:
        return ia_edge_set(out, "index", exact && place.plain,
                           place.dims == 1 ? "[%zd]%s" : ".flat[%zd]%s",
                           place.index, place.field);
    case IA_IN_ARRAY_NOT:
        break;
    }
    return plain;
}

static PyTypeObject *
future_type(PyObject *op)
{
    PyTypeObject *t = ia_base_named(Py_TYPE(op), "_asyncio.Task");
    return t ? t : ia_base_named(Py_TYPE(op), "_asyncio.Future");
}

static int
is_view(PyObject *op)
{
    return PyDictKeys_Check(op) || PyDictItems_Check(op) ||
           PyDictValues_Check(op);
}

static ia_reading
name_in_buffer(PyObject *op, PyObject *child, ia_edge_text *out)
{
    return PyMemoryView_Check(op) && is_named(child, "managedbuffer")
               ? ia_edge_pass(out, IA_READ_CONTENTS, NULL)
               : ia_edge_set(out, "attribute", 1, ".obj");
}

/* -- all together -------------------------------------------------------- */

static int
name_by_reading(PyObject *op, PyObject *child, ia_reading reading,
                ia_edge_text *out, ia_reading *next)
{
    switch (reading.how) {
    case IA_READ_ITERABLES:
        *next = name_iterable(op, child, out);
        return 1;
    case IA_READ_ARGUMENTS:
        *next = ia_name_lru_argument(op, child, reading.owner, out);
        return 1;
    case IA_READ_ENTRIES:
        *next = ia_name_lru_entry(op, child, reading.owner, out);
        return 1;
    case IA_READ_THREADS:
        *next = name_thread(op, child, out);
        return 1;
    default:
        return 0;
    }
}

/* 1 even where the step shows nothing. */
static int
name_silently(PyObject *op, PyObject *child, ia_edge_text *out,
              ia_reading *next)
{
    if (ia_is_plain_iterator(op) || is_named(op, "itertools._tee_dataobject"))
        *next = name_in_iterator(op, child, out);
    else if (PyContext_CheckExact(op) || is_context_tree(op))
        *next = name_in_context(op, child, out);
    else if (PyMemoryView_Check(op) || is_named(op, "managedbuffer"))
        *next = name_in_buffer(op, child, out);
    else
        return 0;
    return 1;
}

static ia_reading
name(PyObject *op, PyObject *child, ia_edge_text *out)
{
    PyTypeObject *future;
    if (is_named(op, "functools._lru_cache_wrapper"))
        return ia_name_in_lru_cache(op, child, out);
    if (PyContextVar_CheckExact(op))
        return ia_edge_set(out, "context", 0, ".<default>");
    if (PyContextToken_CheckExact(op))
        return name_in_token(op, child, out);
    if (ia_base_named(Py_TYPE(op), "_thread._local"))
        return name_in_local(op, child, out);
    if (is_named(op, "_queue.SimpleQueue"))
        return name_in_queue(op, child, out);
    if (is_view(op))
        return ia_edge_set(out, "attribute", 1, ".mapping");
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_NDARRAY)
        return name_in_array(op, child, out);
    if ((future = future_type(op)) != NULL)
        return name_in_future(future, op, child, out);
    return plain;
}

int
ia_name_in_library(PyObject *op, PyObject *child, ia_reading reading,
                   ia_edge_text *out, ia_reading *next)
{
    if (name_by_reading(op, child, reading, out, next) ||
        name_silently(op, child, out, next))
        return 1;
    *next = name(op, child, out);
    return out->text[0] != 0 || next->how != IA_READ_PLAIN;
}
