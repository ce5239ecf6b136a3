/* An exception of the program's that came while code of ours ran. */

#include "taken_exception.h"

#include <frameobject.h>
#include <string.h>

static int
is_our_frame(PyFrameObject *frame)
{
    static const char ours[] = "impactarbiter";
    PyObject *globals = PyFrame_GetGlobals(frame);
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    const char *text = name != NULL && PyUnicode_CheckExact(name)
                           ? PyUnicode_AsUTF8(name)
                           : NULL;
    if (text == NULL)
        PyErr_Clear();
    const size_t length = sizeof ours - 1;
    int is_ours = text != NULL && strncmp(text, ours, length) == 0 &&
                  (text[length] == '.' || text[length] == '\0');
    Py_DECREF(globals);
    return is_ours;
}

static void
forget_our_frames(PyObject *exception)
{
    PyObject *traceback = PyException_GetTraceback(exception);
    PyTracebackObject *rest = NULL, *t = (PyTracebackObject *)traceback;
    int any = 0;
    for (; t != NULL; t = t->tb_next)
        if (is_our_frame(t->tb_frame)) {
            rest = t->tb_next;
            any = 1;
        }
    if (any)
        PyException_SetTraceback(exception,
                                 rest != NULL ? (PyObject *)rest : Py_None);
    Py_XDECREF(traceback);
}

PyObject *
ia_take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    forget_our_frames(value);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}
