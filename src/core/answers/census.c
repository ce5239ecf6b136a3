/* What a holder's items are. */

#include "census.h"

#include "../base/build.h"
#include "../holders/visits.h"
#include "../names/path.h"

#include <string.h>

/* Items that are looked at: all of them where there are no more, else as many
 * from the beginning. */
#define MOST_ITEMS 4096
/* Parts of one item that are described; what has more is described by its
 * type. */
#define MOST_PARTS 16
/* How deep: (logits, {"loss": loss}). */
#define MOST_DEPTH 3

static PyObject *describe(PyObject *op, int depth);

static PyObject *
describe_tensor(PyObject *op)
{
    ia_tensor_info info = {.dims = -1};
    ia_the_framework->describe_tensor(op, &info);
    int64_t count = info.dims < 0 ? -1 : 1;
    for (int i = 0; i < info.dims && i < IA_MAX_DIMS; i++) {
        int64_t size = info.shape[i];
        count = size > 0 && count > INT64_MAX / size ? INT64_MAX
                                                     : count * size;
    }
    return Py_BuildValue("(sLOn)", "tensor", (long long)count,
                         ia_the_framework->grad_fn_of(op) ? Py_True
                                                          : Py_False,
                         (Py_ssize_t)info.storage.bytes);
}

static PyObject *
describe_sequence(PyObject *op, int depth)
{
    Py_ssize_t n = Py_SIZE(op);
    PyObject *parts = PyTuple_New(n);
    for (Py_ssize_t i = 0; parts && i < n; i++) {
        PyObject *item = PyTuple_CheckExact(op) ? PyTuple_GET_ITEM(op, i)
                                                : PyList_GET_ITEM(op, i);
        PyObject *part = describe(item, depth + 1);
        if (part == NULL)
            Py_CLEAR(parts);
        else
            PyTuple_SET_ITEM(parts, i, part);
    }
    return parts == NULL ? NULL
                         : Py_BuildValue("(sN)", PyTuple_CheckExact(op)
                                                     ? "tuple" : "list",
                                         parts);
}

static PyObject *
describe_dict(PyObject *op, int depth)
{
    PyObject *parts = PyTuple_New(PyDict_GET_SIZE(op)), *key, *value;
    Py_ssize_t pos = 0, i = 0;
    while (parts && PyDict_Next(op, &pos, &key, &value)) {
        PyObject *part = describe(value, depth + 1);
        PyObject *name = PyUnicode_CheckExact(key) ? key : Py_None;
        PyObject *item = part ? Py_BuildValue("(ON)", name, part) : NULL;
        if (item == NULL)
            Py_CLEAR(parts);
        else
            PyTuple_SET_ITEM(parts, i++, item);
    }
    return parts == NULL ? NULL : Py_BuildValue("(sN)", "dict", parts);
}

static PyObject *
describe(PyObject *op, int depth)
{
    char type[128];
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
        return describe_tensor(op);
    int sequence = PyTuple_CheckExact(op) || PyList_CheckExact(op);
    if (depth < MOST_DEPTH && sequence && Py_SIZE(op) <= MOST_PARTS)
        return describe_sequence(op, depth);
    if (depth < MOST_DEPTH && PyDict_CheckExact(op) &&
        PyDict_GET_SIZE(op) <= MOST_PARTS)
        return describe_dict(op, depth);
    ia_ref_type_name((uintptr_t)op, type, sizeof type);
    return Py_BuildValue("(sN)", "other", ia_str(type));
}

typedef struct {
    PyObject *counts; /* owned by the caller; NULL after an error */
    Py_ssize_t seen;
} census;

static int
count_item(PyObject *op, void *arg)
{
    census *c = arg;
    if (c->seen++ >= MOST_ITEMS)
        return 1;
    PyObject *key = describe(op, 0);
    PyObject *before = key ? PyDict_GetItemWithError(c->counts, key) : NULL;
    long n = before ? PyLong_AsLong(before) : 0;
    PyObject *now = key ? PyLong_FromLong(n + 1) : NULL;
    int bad = now == NULL || PyDict_SetItem(c->counts, key, now) < 0;
    Py_XDECREF(now);
    Py_XDECREF(key);
    return bad ? -1 : 0;
}

static int
count_list(PyObject *list, census *c)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        int stop = count_item(PyList_GET_ITEM(list, i), c);
        if (stop)
            return stop;
    }
    return 0;
}

static int
count_dict(PyObject *dict, census *c)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value)) {
        int stop = count_item(value, c);
        if (stop)
            return stop;
    }
    return 0;
}

static PyObject *
count_all(PyObject *op)
{
    census c = {.counts = PyDict_New()};
    int stop = 0, collecting;
    if (c.counts == NULL)
        return NULL;
    /* Nothing may take the items away while they are described. */
    collecting = PyGC_Disable();
    if (PyList_Check(op))
        stop = count_list(op, &c);
    else if (PyDict_Check(op))
        stop = count_dict(op, &c);
    else if (ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
        stop = count_item(op, &c);
    else if (Py_TYPE(op)->tp_traverse != NULL && ia_is_gc(op))
        stop = Py_TYPE(op)->tp_traverse(op, count_item, &c);
    if (collecting)
        PyGC_Enable();
    if (stop < 0)
        Py_CLEAR(c.counts);
    return c.counts;
}

/* Unknown where another thread may be changing the tensors. */
PyObject *
ia_census_build(uint32_t path)
{
    PyObject *op = ia_visit_holder(path), *made = NULL;
    if (op == NULL || ia_the_framework == NULL)
        return Py_NewRef(Py_None);
    int still = ia_the_framework->walk_begin(0);
    made = still ? count_all(op) : Py_NewRef(Py_None);
    ia_the_framework->walk_end();
    return made;
}
