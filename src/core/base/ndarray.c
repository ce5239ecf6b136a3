/* What a NumPy array holds, and where. */

#include "compat.h"
#include "device_name.h"
#include "ndarray.h"
#include "read.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <stdio.h>
#include <string.h>

#if NPY_ABI_VERSION < 0x02000000
#define PyDataType_ELSIZE(d) ((npy_intp)(d)->elsize)
#define PyDataType_FIELDS(d) ((d)->fields)
#define PyDataType_SUBARRAY(d) ((d)->subarray)
#endif

/* Structured dtypes within structured dtypes; deeper ones are not read. */
#define MAX_NESTING 8
/* NumPy makes a view's base that of its base, but for a record's, and between
 * classes: one or two are in a row. */
#define MAX_VIEWS 8

/* A table that was found may be one of a NumPy that we can't read. */
static int is_bound;

int
ia_ndarray_bind(void)
{
    /* NumPy's own macro would print what went wrong. */
    if (!is_bound && _import_array() < 0)
        return -1;
    is_bound = 1;
    return 0;
}

int
ia_ndarray_is_bound(void)
{
    return is_bound;
}

int
ia_ndarray_is_class(PyTypeObject *type)
{
    return is_bound && (PyType_IsSubtype(type, &PyArray_Type) ||
                        PyType_IsSubtype(type, &PyVoidArrType_Type));
}

/* One of a structured array's, which shows its memory as a view does. */
static int
is_record(PyObject *op)
{
    return !PyArray_Check(op);
}

static PyObject *
base_of(PyObject *op)
{
    return is_record(op) ? ((PyVoidScalarObject *)op)->base
                         : PyArray_BASE((PyArrayObject *)op);
}

static PyArray_Descr *
dtype_of(PyObject *op)
{
    return is_record(op) ? ((PyVoidScalarObject *)op)->descr
                         : PyArray_DESCR((PyArrayObject *)op);
}

/* -- objects in items ---------------------------------------------------- */

/* The i-th field of a structured dtype: 1, or 0 where there is none left. */
static int
next_field(PyArray_Descr *d, Py_ssize_t *at, PyObject **name,
           PyArray_Descr **type, Py_ssize_t *offset)
{
    PyObject *fields = PyDataType_FIELDS(d), *value;
    if (fields == NULL || !PyDict_Check(fields))
        return 0;
    while (PyDict_Next(fields, at, name, &value)) {
        if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) < 2 ||
            !PyLong_CheckExact(PyTuple_GET_ITEM(value, 1)))
            continue;
        *type = (PyArray_Descr *)PyTuple_GET_ITEM(value, 0);
        *offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(value, 1));
        return 1;
    }
    return 0;
}

/* What a visitor of an item's objects is told besides: by which fields. */
typedef struct {
    visitproc visit;
    void *arg;
    char *text; /* of the fields down to the object, or NULL */
    size_t room;
    int plain;
} item_visit;

static void
put_name(item_visit *v, size_t used, const char *name)
{
    if (v->text == NULL)
        return;
    size_t room = v->room - used;
    int n = snprintf(v->text + used, room, "['%s']", name);
    if (n < 0 || (size_t)n >= room || strpbrk(name, "'\\") != NULL)
        v->plain = 0;
}

static void
put_index(item_visit *v, size_t used, npy_intp index)
{
    if (v->text == NULL)
        return;
    size_t room = v->room - used;
    int n = snprintf(v->text + used, room, "[%zd]", (Py_ssize_t)index);
    if (n < 0 || (size_t)n >= room)
        v->plain = 0;
}

static int visit_item(PyArray_Descr *d, const char *data, int depth,
                      item_visit *v);

static int
visit_parts(PyArray_Descr *d, const char *data, int depth, item_visit *v)
{
    PyArray_ArrayDescr *inner = PyDataType_SUBARRAY(d);
    npy_intp size = inner != NULL ? PyDataType_ELSIZE(inner->base) : 0;
    npy_intp count = size > 0 ? PyDataType_ELSIZE(d) / size : 0;
    size_t used = v->text ? strlen(v->text) : 0;
    int stop = 0, plain = v->plain;
    for (npy_intp i = 0; !stop && i < count; i++) {
        v->plain = plain;
        put_index(v, used, i);
        stop = visit_item(inner->base, data + i * size, depth + 1, v);
    }
    return stop;
}

static int
visit_fields(PyArray_Descr *d, const char *data, int depth, item_visit *v)
{
    PyObject *name;
    PyArray_Descr *type;
    Py_ssize_t at = 0, offset;
    size_t used = v->text ? strlen(v->text) : 0;
    int stop = 0, plain = v->plain;
    while (!stop && next_field(d, &at, &name, &type, &offset)) {
        v->plain = plain;
        put_name(v, used, ia_utf8(name));
        stop = visit_item(type, data + offset, depth + 1, v);
    }
    return stop;
}

/* By the dtype's structure alone: what holds references in another way, a
 * dtype that a user made, holds no objects. */
static int
visit_item(PyArray_Descr *d, const char *data, int depth, item_visit *v)
{
    PyObject *op;
    if (depth > MAX_NESTING || !PyDataType_REFCHK(d))
        return 0;
    if (d->type_num == NPY_OBJECT) {
        memcpy(&op, data, sizeof op); /* may stand anywhere */
        return op != NULL ? v->visit(op, v->arg) : 0;
    }
    if (d->type_num != NPY_VOID)
        return 0;
    return PyDataType_SUBARRAY(d) != NULL ? visit_parts(d, data, depth, v)
                                          : visit_fields(d, data, depth, v);
}

/* Of an array whose items lie side by side: one that owns them. */
static int
visit_items(PyArrayObject *array, visitproc visit, void *arg)
{
    item_visit v = {.visit = visit, .arg = arg};
    const char *data = PyArray_DATA(array);
    npy_intp n = PyArray_SIZE(array), size = PyArray_ITEMSIZE(array);
    int stop = 0;
    for (npy_intp i = 0; !stop && i < n; i++)
        stop = visit_item(PyArray_DESCR(array), data + i * size, 0, &v);
    return stop;
}

/* A record's own memory is no block of NumPy's. */
static int
owns(PyObject *op)
{
    PyArrayObject *array = (PyArrayObject *)op;
    return !is_record(op) && PyArray_DATA(array) != NULL &&
           PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA);
}

int
ia_ndarray_traverse_hidden(PyObject *op, visitproc visit, void *arg)
{
    int stop = 0;
    if (dtype_of(op) == NULL)
        return 0; /* half built */
    if (base_of(op) != NULL)
        stop = visit(base_of(op), arg);
    if (!stop && owns(op) && PyDataType_REFCHK(dtype_of(op)))
        stop = visit_items((PyArrayObject *)op, visit, arg);
    return stop;
}

int
ia_ndarray_traverse(PyObject *op, visitproc visit, void *arg)
{
    int stop = ia_ndarray_traverse_hidden(op, visit, arg);
    if (!stop && Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op))
        stop = Py_TYPE(op)->tp_traverse(op, visit, arg);
    return stop;
}

int
ia_ndarray_has_objects(PyObject *op)
{
    PyArray_Descr *dtype = dtype_of(op);
    return dtype != NULL && PyDataType_REFCHK(dtype);
}

/* -- memory -------------------------------------------------------------- */

int
ia_ndarray_block(PyObject *op, ia_storage *block)
{
    PyArrayObject *array = (PyArrayObject *)op;
    if (dtype_of(op) == NULL || !owns(op))
        return 0;
    *block = (ia_storage){
        .data = (uintptr_t)PyArray_DATA(array),
        .bytes = (size_t)PyArray_NBYTES(array),
        .device = IA_DEVICE_NUMPY,
    };
    return 1;
}

int
ia_ndarray_shows(PyObject *op, PyObject *array)
{
    return base_of(op) == array && PyArray_Check(array);
}

void
ia_ndarray_describe(PyObject *op, ia_tensor_info *info)
{
    PyArrayObject *array = (PyArrayObject *)op;
    *info = (ia_tensor_info){.dims = -1};
    if (dtype_of(op) == NULL)
        return;
    info->dims = is_record(op) ? 0 : PyArray_NDIM(array);
    for (int i = 0; i < info->dims && i < IA_MAX_DIMS; i++)
        info->shape[i] = PyArray_DIM(array, i);
    /* "numpy.float32", "numpy.object_"; as NumPy itself says, with the bits of
     * what is as large as one likes: "void928" */
    const char *name = dtype_of(op)->typeobj->tp_name;
    const char *dot = strrchr(name, '.');
    snprintf(info->dtype, sizeof info->dtype, "%s", dot ? dot + 1 : name);
    size_t length = strlen(info->dtype);
    if (length > 0 && info->dtype[length - 1] == '_')
        info->dtype[--length] = '\0';
    if (PyTypeNum_ISFLEXIBLE(dtype_of(op)->type_num) &&
        PyDataType_ELSIZE(dtype_of(op)) > 0)
        snprintf(info->dtype + length, sizeof info->dtype - length, "%zd",
                 (Py_ssize_t)PyDataType_ELSIZE(dtype_of(op)) * 8);
    snprintf(info->device, sizeof info->device, "numpy");
    for (int i = 0; i < MAX_VIEWS && op != NULL; i++, op = base_of(op))
        if (ia_ndarray_block(op, &info->storage) ||
            (base_of(op) != NULL && !PyArray_Check(base_of(op))))
            break;
}

/* -- places -------------------------------------------------------------- */

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

static int
is_same(PyObject *op, void *arg)
{
    return op == arg;
}

static ia_in_array
find_item(PyArrayObject *array, PyObject *child, ia_array_place *place)
{
    item_visit v = {is_same, child, place->field, sizeof place->field, 1};
    const char *data = PyArray_DATA(array);
    npy_intp n = PyArray_SIZE(array), size = PyArray_ITEMSIZE(array);
    for (npy_intp i = 0; i < n; i++) {
        place->field[0] = '\0';
        v.plain = 1;
        if (!visit_item(PyArray_DESCR(array), data + i * size, 0, &v))
            continue;
        place->index = place_in_c_order(array, i * size);
        place->plain = v.plain;
        return IA_IN_ARRAY_ITEM;
    }
    place->field[0] = '\0';
    return IA_IN_ARRAY_NOT;
}

ia_in_array
ia_ndarray_place(PyObject *op, PyObject *child, ia_array_place *place)
{
    *place = (ia_array_place){.index = -1};
    if (base_of(op) == child)
        return IA_IN_ARRAY_BASE;
    if (!owns(op) || !PyDataType_REFCHK(dtype_of(op)))
        return IA_IN_ARRAY_NOT;
    place->dims = PyArray_NDIM((PyArrayObject *)op);
    return find_item((PyArrayObject *)op, child, place);
}
