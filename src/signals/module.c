/* impactarbiter._signals: signals that end the program or wait, and calls that
 * it is not to notice.
 */
#include "../core/base/size_limit.h"
#include "signals.h"

PyDoc_STRVAR(beyond_size_doc,
             "beyond_size($module, work, /)\n--\n\n"
             "Call work(); what it writes beyond the limit of files' sizes\n"
             "fails, and raises no signal.");

static PyObject *
beyond_size(PyObject *Py_UNUSED(self), PyObject *work)
{
    ia_size_limit limit;
    ia_size_limit_begin(&limit);
    PyObject *done = PyObject_CallNoArgs(work);
    ia_size_limit_end(&limit);
    return done;
}

PyDoc_STRVAR(threads_end_doc,
             "threads_end($module, threading, /)\n--\n\n"
             "Wait for the program's threads as the interpreter does at its\n"
             "end, which does not wait again: what ends the wait is told.");

static PyObject *
threads_end(PyObject *Py_UNUSED(self), PyObject *threading)
{
    PyObject *done = PyObject_CallMethod(threading, "_shutdown", NULL);
    if (done == NULL) {
#if PY_VERSION_HEX >= 0x030D0000
        PyErr_FormatUnraisable("Exception ignored on threading shutdown");
#else
        PyErr_WriteUnraisable(threading);
#endif
    }
    Py_XDECREF(done);
    Py_RETURN_NONE;
}

static PyMethodDef ending_methods[] = {
    {"beyond_size", beyond_size, METH_O, beyond_size_doc},
    {"threads_end", threads_end, METH_O, threads_end_doc},
    {NULL, NULL, 0, NULL},
};

static int
add_methods(PyObject *module)
{
    PyMethodDef *methods[] = {ia_taken_methods, ia_waiting_methods,
                              ia_aside_methods, ending_methods};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(methods); i++)
        if (PyModule_AddFunctions(module, methods[i]) < 0)
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_methods},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "impactarbiter._signals",
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__signals(void)
{
    return PyModuleDef_Init(&module);
}
