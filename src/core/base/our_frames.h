/* Frames of ours in a traceback: what a handler raises while code of ours runs
 * is the program's, and is to look as though we had not been there. */
#ifndef IA_OUR_FRAMES_H
#define IA_OUR_FRAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <string.h>

static inline int
ia_is_our_frame(PyFrameObject *frame)
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

/* Has the exception's traceback begin behind the last frame of ours; no
 * exception is set. */
static inline void
ia_forget_our_frames(PyObject *exception)
{
    PyObject *traceback = PyException_GetTraceback(exception);
    PyTracebackObject *rest = NULL, *t = (PyTracebackObject *)traceback;
    int any = 0;
    for (; t != NULL; t = t->tb_next)
        if (ia_is_our_frame(t->tb_frame)) {
            rest = t->tb_next;
            any = 1;
        }
    if (any)
        PyException_SetTraceback(exception,
                                 rest != NULL ? (PyObject *)rest : Py_None);
    Py_XDECREF(traceback);
}

#endif /* IA_OUR_FRAMES_H */
