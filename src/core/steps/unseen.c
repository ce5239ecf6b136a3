/* What a look keeps from the program: its tracer and its profiler see none of
 * our Python code.  A look is made by the way, where the program called
 * something else; what it calls itself (a report) it may trace.
 */

#include "../base/compat.h"
#include "unseen.h"

/* Whether it is we who keep this thread from being traced: once at most, so
 * that the program's own count of it is in force as soon as we do not. */
static _Thread_local int unseen;

static void
set_unseen(int now)
{
    PyThreadState *thread = PyThreadState_Get();
    if (now && !unseen)
        PyThreadState_EnterTracing(thread);
    else if (!now && unseen)
        PyThreadState_LeaveTracing(thread);
    unseen = now;
}

int
ia_unseen_begin(void)
{
    int before = unseen;
    set_unseen(1);
    return before;
}

void
ia_unseen_end(int before)
{
    set_unseen(before);
}

PyObject *
ia_call_theirs(PyObject *callable, PyObject *const *args, Py_ssize_t count)
{
    int before = unseen;
    set_unseen(0);
    PyObject *result =
        PyObject_Vectorcall(callable, args, (size_t)count, NULL);
    set_unseen(before);
    return result;
}
