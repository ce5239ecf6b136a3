/* What a NumPy array holds, and where. */

#include "compat.h"
#include "ndarray.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

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
