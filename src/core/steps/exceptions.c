/* Exceptions that came while our Python code ran and are the program's. */

#include "../base/compat.h"
#include "../base/taken_exception.h"
#include "exceptions.h"

#include <errno.h>

static int
raise_again(void *exception)
{
    PyObject *value = exception;
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return -1;
}

/* A thread takes a class from outside: what it raises was made without
 * arguments, as what came to it so was.  What has come to it since takes its
 * place, as it would have done. */
static void
raise_on_this_thread(PyObject *type)
{
    if (PyThreadState_Get()->async_exc == NULL)
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
}

/* Pending calls are the main thread's, and there is room for few. */
void
ia_pass_on_exception(void)
{
    PyObject *value = ia_take_exception();
    if (!_Py_IsMainThread() || Py_AddPendingCall(raise_again, value) < 0) {
        raise_on_this_thread((PyObject *)Py_TYPE(value));
        Py_DECREF(value);
    }
}

/* The process may open no more files, or the machine may not. */
static int
is_out_of_files(void)
{
    PyObject *type, *value, *traceback;
    long number = 0;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (PyObject_TypeCheck(value, (PyTypeObject *)PyExc_OSError)) {
        PyObject *given = ((PyOSErrorObject *)value)->myerrno;
        if (given != NULL && PyLong_CheckExact(given))
            number = PyLong_AsLong(given);
    }
    PyErr_Restore(type, value, traceback);
    return number == EMFILE || number == ENFILE;
}

int
ia_is_shortage(void)
{
    return PyErr_ExceptionMatches(PyExc_RecursionError) ||
           PyErr_ExceptionMatches(PyExc_MemoryError) ||
           (PyErr_ExceptionMatches(PyExc_OSError) && is_out_of_files());
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
    /* What came of asking, not of a handler: no room for the call. */
    if (answer == NULL && ia_is_shortage()) {
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
