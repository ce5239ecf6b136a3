/* Kinds of Python types, and what the storages behind them are for. */

#include "../base/compat.h"
#include "../steps/optimizers.h"
#include "purposes.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <string.h>

/* Direct-mapped: a heap has some hundred types that matter. */
#define KIND_CACHE 1024

static struct {
    PyTypeObject *type; /* borrowed; forgotten before every walk */
    int kind;
} cache[KIND_CACHE];

static PyTypeObject *module_type, *optimizer_type; /* borrowed */

const ia_framework *ia_the_framework;

void
ia_walk_set_types(PyTypeObject *module, PyTypeObject *optimizer)
{
    module_type = module;
    optimizer_type = optimizer;
}

void
ia_kinds_forget(void)
{
    memset(cache, 0, sizeof cache);
}

static int
find_kind(PyTypeObject *type)
{
    if (PyType_IsSubtype(type, &PyArray_Type))
        return IA_KIND_NDARRAY;
    if (module_type != NULL && PyType_IsSubtype(type, module_type))
        return IA_KIND_MODULE;
    if (optimizer_type != NULL && PyType_IsSubtype(type, optimizer_type))
        return IA_KIND_OPTIMIZER;
    return ia_the_framework ? (int)ia_the_framework->kind_of_type(type)
                            : IA_KIND_PLAIN;
}

int
ia_kind_of(PyTypeObject *type)
{
    size_t i = ((uintptr_t)type >> 4) % KIND_CACHE;
    if (cache[i].type != type) {
        cache[i].kind = find_kind(type);
        cache[i].type = type;
    }
    return cache[i].kind;
}

int
ia_ndarray_traverse(PyObject *op, visitproc visit, void *arg)
{
    PyArrayObject *array = (PyArrayObject *)op;
    int stop = 0;
    if (PyArray_BASE(array) != NULL)
        stop = visit(PyArray_BASE(array), arg);
    if (PyArray_TYPE(array) != NPY_OBJECT ||
        !PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA))
        return stop;
    PyObject **items = PyArray_DATA(array);
    npy_intp n = PyArray_SIZE(array);
    for (npy_intp i = 0; !stop && i < n; i++)
        if (items[i] != NULL)
            stop = visit(items[i], arg);
    return stop;
}

PyObject *
ia_dict_value(PyObject *dict, const char *name)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value))
        if (PyUnicode_Check(key) &&
            PyUnicode_CompareWithASCIIString(key, name) == 0)
            return value;
    return NULL;
}

/* Items of an array that owns its memory lie side by side, in an order that
 * its strides tell: from the greatest to the smallest. */
static Py_ssize_t
place_in_c_order(PyArrayObject *array, npy_intp offset)
{
    int n = PyArray_NDIM(array);
    npy_intp index[NPY_MAXDIMS] = {0}, place = 0, last = NPY_MAX_INTP;
    for (int done = 0; done < n; done++) {
        int best = -1;
        for (int d = 0; d < n; d++)
            if (PyArray_DIM(array, d) > 1 && PyArray_STRIDE(array, d) < last &&
                (best < 0 ||
                 PyArray_STRIDE(array, d) > PyArray_STRIDE(array, best)))
                best = d;
        if (best < 0)
            break;
        last = PyArray_STRIDE(array, best);
        index[best] = offset / last;
        offset %= last;
    }
    for (int d = 0; d < n; d++)
        place = place * PyArray_DIM(array, d) + index[d];
    return place;
}

int
ia_ndarray_place(PyObject *op, PyObject *child, Py_ssize_t *index)
{
    PyArrayObject *array = (PyArrayObject *)op;
    *index = -1;
    if (PyArray_BASE(array) == child || PyArray_TYPE(array) != NPY_OBJECT)
        return PyArray_NDIM(array);
    PyObject **items = PyArray_DATA(array);
    npy_intp n = PyArray_SIZE(array);
    for (npy_intp i = 0; *index < 0 && i < n; i++)
        if (items[i] == child)
            *index = place_in_c_order(array, i * PyArray_ITEMSIZE(array));
    return PyArray_NDIM(array);
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
    PyObject *dict = ia_get_instance_dict(op);
    return dict == NULL ? NULL : ia_dict_value(dict, name);
}

static void
note_tensor(ia_storages *storages, PyObject *op, ia_purpose purpose)
{
    ia_storage storage;
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &storage))
        return;
    ia_reached *item = ia_storages_get(storages, &storage);
    if (item != NULL && purpose > item->purpose)
        item->purpose = (uint16_t)purpose;
}

static void
note_values(ia_storages *storages, PyObject *dict, ia_purpose purpose)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (dict == NULL || !PyDict_Check(dict))
        return;
    while (PyDict_Next(dict, &pos, &key, &value))
        note_tensor(storages, value, purpose);
}

/* Adds the parameters that an optimizer still has to a set. */
static void
add_parameters(ia_ptrmap *set, PyObject *groups)
{
    if (groups == NULL || !PyList_Check(groups))
        return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        PyObject *params = PyDict_Check(group)
                               ? ia_dict_value(group, "params") : NULL;
        if (params == NULL || !PyList_Check(params))
            continue;
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(params); j++)
            ia_ptrmap_set(set, (uintptr_t)PyList_GET_ITEM(params, j), 1);
    }
}

/* Takes the gradient among what a parameter holds. */
typedef struct {
    ia_sink sink; /* first */
    ia_storages *storages;
} gradient_sink;

static int
explain_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
                const char *name, Py_ssize_t index)
{
    (void)name, (void)index;
    if (kind != IA_EDGE_GRAD)
        return 0;
    ia_reached *item =
        ia_storages_get(((gradient_sink *)sink)->storages, storage);
    if (item != NULL)
        item->explained = 1;
    return 0;
}

static int
explain_object(ia_sink *sink, PyObject *op, ia_edge_kind kind,
               const char *name, Py_ssize_t index)
{
    ia_storage storage;
    if (kind != IA_EDGE_GRAD ||
        ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &storage))
        return 0;
    return explain_storage(sink, &storage, kind, name, index);
}

static int
pass_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    (void)sink, (void)node, (void)kind, (void)name, (void)index;
    return 0;
}

static void
explain_gradient(ia_storages *storages, PyObject *param)
{
    gradient_sink sink = {{explain_object, pass_node, explain_storage},
                          storages};
    if (ia_kind_of(Py_TYPE(param)) == IA_KIND_TENSOR)
        ia_the_framework->expand_object(param, IA_KIND_TENSOR, &sink.sink);
}

static void
explain_values(ia_storages *storages, PyObject *dict)
{
    ia_storage storage;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Check(dict) && PyDict_Next(dict, &pos, &key, &value)) {
        if (ia_kind_of(Py_TYPE(value)) != IA_KIND_TENSOR ||
            !ia_the_framework->storage_of(value, &storage))
            continue;
        ia_reached *item = ia_storages_get(storages, &storage);
        if (item != NULL)
            item->explained = 1;
    }
}

/* The state of parameters that the optimizer no longer has is a leftover. */
static void
note_optimizer(ia_storages *storages, PyObject *op)
{
    ia_ptrmap params = {0};
    PyObject *state = ia_instance_attribute(op, "state"), *key, *value;
    Py_ssize_t pos = 0;
    add_parameters(&params, ia_instance_attribute(op, "param_groups"));
    while (state != NULL && PyDict_Check(state) &&
           PyDict_Next(state, &pos, &key, &value))
        if (ia_ptrmap_get(&params, (uintptr_t)key) != IA_PTRMAP_NONE) {
            note_values(storages, value, IA_FOR_OPTIMIZER);
            explain_values(storages, value);
            explain_gradient(storages, key);
        }
    ia_ptrmap_free(&params);
}

void
ia_purpose_note(ia_storages *storages, PyObject *op, int kind)
{
    if (kind == IA_KIND_MODULE) {
        note_values(storages, ia_instance_attribute(op, "_parameters"),
                    IA_FOR_PARAMETER);
        note_values(storages, ia_instance_attribute(op, "_buffers"),
                    IA_FOR_BUFFER);
        return;
    }
    /* State of a throw-away optimizer explains nothing. */
    if (ia_optimizer_steps(op))
        note_optimizer(storages, op);
}
