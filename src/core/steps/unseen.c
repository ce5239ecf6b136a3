/* What a look keeps from the program: its tracer and its profiler see none of
 * our Python code.  A look is made by the way, where the program called
 * something else; what it calls itself (a report) it may trace.  What our
 * code makes in a look begins no collection: that would come at other places
 * than without us, with finalizers of the program's in the middle of a look.
 */

#include "../base/compat.h"
#include "unseen.h"

#include <limits.h>
#include <stddef.h>

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

/* A collection begins where the count of new objects exceeds the threshold.
 * Below zero it cannot, nor do deaths lower it: a look has room for a thousand
 * million objects.  The collector sets the count to zero when it has run. */
#define HELD (INT_MIN / 2)

/* Under the GIL; after a fork there is one thread. */
static int *held_count; /* the interpreter's; NULL: nobody holds it */
static int count_before;
static int holds;

/* Of the youngest generation. */
static int *
count_of_new(void)
{
    size_t before = offsetof(struct gc_generation, head);
    return &((struct gc_generation *)((char *)ia_gc_list(0) - before))->count;
}

void
ia_collector_hold(void)
{
    held_count = count_of_new();
    if (*held_count >= 0) {
        count_before = *held_count;
        *held_count = HELD;
    }
    holds++;
}

void
ia_collector_release(void)
{
    if (holds == 0 || --holds > 0)
        return;
    if (*held_count < 0)
        *held_count = count_before;
    held_count = NULL;
}

void
ia_collector_after_fork(void)
{
    if (holds > 0)
        holds = 1;
    ia_collector_release();
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
