/* Exceptions that came while our Python code ran and are the program's. */

#include "../base/compat.h"
#include "exceptions.h"

static int
raise_again(void *exception)
{
    PyObject *value = exception;
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return -1;
}

void
ia_pass_on_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    if (Py_AddPendingCall(raise_again, value) < 0)
        Py_DECREF(value);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}

/* What came of asking, not of a handler: no room for the call. */
static int
is_shortage(void)
{
    return PyErr_ExceptionMatches(PyExc_RecursionError) ||
           PyErr_ExceptionMatches(PyExc_MemoryError);
}

int
ia_is_programs(PyObject *whose)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return 1;
    if (whose == NULL)
        return 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    PyObject *answer = PyObject_CallOneArg(whose, value);
    if (answer == NULL && is_shortage()) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    if (answer == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return 1;
    }
    Py_DECREF(answer);
    PyErr_Restore(type, value, traceback);
    return answer == Py_True;
}
