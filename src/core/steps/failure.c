/* Whether we watch, and what went wrong when we no longer do. */

#include "../base/compat.h"
#include "../base/read.h"
#include "../ledger/arrays.h"
#include "failure.h"

atomic_int ia_active;
static char failure[300];

void
ia_failure_forget(void)
{
    failure[0] = 0;
}

const char *
ia_failure(void)
{
    return failure[0] ? failure : NULL;
}

static int
warn_pending(void *unused)
{
    (void)unused;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                         "impactarbiter is off: %s; the program goes on "
                         "unwatched",
                         failure) < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return 0;
}

void
ia_fail(const char *where, const char *what)
{
    if (failure[0])
        return;
    ia_active = 0;
    ia_arrays_silence();
    PyOS_snprintf(failure, sizeof failure, "%s: %s", where, what);
    if (PyGILState_Check())
        warn_pending(NULL);
    else
        Py_AddPendingCall(warn_pending, NULL);
}

void
ia_fail_with_exception(const char *where)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    char said[200], buffer[240];
    const char *what = text ? ia_text(text, said, sizeof said) : NULL;
    PyOS_snprintf(buffer, sizeof buffer, "%s: %s",
                  type ? ((PyTypeObject *)type)->tp_name : "?",
                  what ? what : "?");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    ia_fail(where, buffer);
}
