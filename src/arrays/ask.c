/* Asking objects of a framework. */

#include "ask.h"

PyObject *
ia_ask(PyObject *function, PyObject *op)
{
    PyObject *result = PyObject_Vectorcall(function, &op, 1, NULL);
    if (result == NULL)
        PyErr_Clear();
    return result;
}

size_t
ia_ask_number(PyObject *value)
{
    size_t n = value != NULL ? PyLong_AsSize_t(value) : 0;
    Py_XDECREF(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return n;
}

int
ia_ask_keep(PyObject **to, PyObject *value)
{
    Py_XSETREF(*to, value);
    return value == NULL ? -1 : 0;
}

void
ia_ask_put_shape(PyObject *shape, ia_tensor_info *info)
{
    if (shape == NULL || !PyTuple_Check(shape))
        return;
    info->dims = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < info->dims && i < IA_MAX_DIMS; i++)
        info->shape[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
}
