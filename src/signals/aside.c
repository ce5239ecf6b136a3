/* What is called beside the program: in the middle of what it does, or between
 * two of its bytecodes, where no handler, tracer or compiler of its own meets
 * code of ours.
 */
#include "../core/base/taken_exception.h"
#include "signals.h"
#include <sys/syscall.h>
#include <unistd.h>

/* Of a framework's compiler, which would take code of ours that begins in the
 * middle of the program's for that; owned, NULL where there is none. */
static PyObject *pause_compiler, *resume_compiler;

PyDoc_STRVAR(compiler_doc,
             "compiler($module, pause, resume, /)\n--\n\n"
             "What is called around aside() and uncompiled(): pause(), and\n"
             "resume() with what that gave, unless it was None.");

static PyObject *
set_compiler(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *pause, *resume;
    if (!PyArg_ParseTuple(args, "OO", &pause, &resume))
        return NULL;
    Py_XSETREF(pause_compiler, Py_NewRef(pause));
    Py_XSETREF(resume_compiler, Py_NewRef(resume));
    Py_RETURN_NONE;
}

/* What resumed() is to be given. */
static PyObject *
paused(void)
{
    PyObject *compiler =
        pause_compiler ? PyObject_CallNoArgs(pause_compiler) : NULL;
    PyErr_Clear();
    return compiler;
}

static void
resumed(PyObject *compiler)
{
    if (compiler != NULL && compiler != Py_None) {
        Py_XDECREF(PyObject_CallOneArg(resume_compiler, compiler));
        PyErr_Clear();
    }
    Py_XDECREF(compiler);
}

int
ia_is_main_thread(void)
{
    return syscall(SYS_gettid) == getpid();
}

/* As it was: what was being handled then is its context. */
static int
raise_it(void *error)
{
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error,
                  PyException_GetTraceback(error));
    return -1;
}

/* What is raised where nobody can pass it on is raised a little later: with
 * the main thread's next instruction, and in another thread, where it came
 * from a third one by its class, by its class. */
static void
raise_later(PyObject *error)
{
    if (!ia_is_main_thread())
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(),
                                  (PyObject *)Py_TYPE(error));
    else if (Py_AddPendingCall(raise_it, error) == 0)
        return;
    Py_DECREF(error);
}

/* What is raised for the program meanwhile, owned. */
typedef struct {
    PyObject *items[3 * NSIG + 1];
    int count;
} errors;

/* Has what came handled, also what comes meanwhile, but not for ever. */
static void
handle_what_came(errors *raised)
{
    for (int n = 0; n < NSIG; n++)
        if (PyErr_CheckSignals() < 0)
            raised->items[raised->count++] = ia_take_exception();
}

/* The same after the work; where a handler leads here again, the outer one
 * goes on with it. */
static void
handle_what_waited(errors *raised)
{
    static int goes_on;
    if (goes_on)
        return;
    goes_on = 1;
    handle_what_came(raised);
    goes_on = 0;
}

/* work(*args) */
static PyObject *
call_work(PyObject *const *args, Py_ssize_t n)
{
    if (n < 1)
        return PyErr_Format(PyExc_TypeError, "no work");
    return PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, NULL);
}

/* What came is handled, as one handler may wait for another, and then they
 * wait; what came in between is handled, too. */
static int
hold_handled(errors *raised)
{
    if (ia_signals_are_held())
        return 0;
    handle_what_came(raised);
    int held = ia_signals_hold(0);
    if (held)
        handle_what_came(raised);
    return held;
}

/* In C, for whatever of Python ran before hold(), or after let_go(), would
 * meet the handlers; and what they raise would end the work, if it were
 * raised before that is done.  What waited is handled before this returns:
 * who has interrupted a call for us would let it go on. */
static void
call_aside(PyObject *const *args, Py_ssize_t n, errors *raised)
{
    PyThreadState *thread = PyThreadState_Get();
    int held = hold_handled(raised);
    PyThreadState_EnterTracing(thread);
    PyObject *compiler = paused();
    PyObject *done = call_work(args, n);
    if (done == NULL)
        raised->items[raised->count++] = ia_take_exception();
    resumed(compiler);
    PyThreadState_LeaveTracing(thread);
    if (held) {
        ia_signals_let_go();
        handle_what_waited(raised);
    }
    Py_XDECREF(done);
}

/* The same, and 0, or -1 with what was raised first; the rest comes later. */
static int
call_aside_and_raise(PyObject *const *args, Py_ssize_t n)
{
    errors raised = {.count = 0};
    call_aside(args, n, &raised);
    for (int i = 1; i < raised.count; i++)
        raise_later(raised.items[i]);
    return raised.count ? raise_it(raised.items[0]) : 0;
}

PyDoc_STRVAR(aside_doc,
             "aside($module, work, /, *args)\n--\n\n"
             "Call work(*args) where the interpreter calls back, in the\n"
             "middle of what the program does.  On the main thread, signals\n"
             "that Python handles are handled before it and after: what a\n"
             "handler raises is the program's to see, and raised once this\n"
             "has returned.  Nothing is traced, nor compiled.");

static PyObject *
aside(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    errors raised = {.count = 0};
    call_aside(args, n, &raised);
    for (int i = 0; i < raised.count; i++)
        raise_later(raised.items[i]);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(handling_doc,
             "handling($module, work, /, *args)\n--\n\n"
             "aside() for a handler of signals: it raises itself.");

static PyObject *
handling(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    if (call_aside_and_raise(args, n) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uncompiled_doc,
             "uncompiled($module, work, /, *args)\n--\n\n"
             "What work(*args) gives, which no compiler takes for the\n"
             "program's.");

static PyObject *
uncompiled(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    PyObject *compiler = paused(), *type, *value, *trace;
    PyObject *done = call_work(args, n);
    PyErr_Fetch(&type, &value, &trace);
    resumed(compiler);
    PyErr_Restore(type, value, trace);
    return done;
}

PyDoc_STRVAR(untraced_doc,
             "untraced($module, work, /, *args)\n--\n\n"
             "What work(*args) gives, of which no tracer or profiler of the\n"
             "program's sees anything.");

static PyObject *
untraced(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    PyThreadState *thread = PyThreadState_Get();
    PyThreadState_EnterTracing(thread);
    PyObject *done = call_work(args, n);
    PyThreadState_LeaveTracing(thread);
    return done;
}

PyDoc_STRVAR(soon_doc,
             "soon($module, work, /)\n--\n\n"
             "Have the main thread do aside(work) between two of its\n"
             "bytecodes.  False where too much waits there for now.");

static int
do_it(void *work)
{
    PyObject *asked = work;
    int result = call_aside_and_raise(&asked, 1);
    Py_DECREF(asked);
    return result;
}

static PyObject *
soon(PyObject *Py_UNUSED(self), PyObject *work)
{
    if (Py_AddPendingCall(do_it, Py_NewRef(work)) == 0)
        Py_RETURN_TRUE;
    Py_DECREF(work);
    Py_RETURN_FALSE;
}

PyMethodDef ia_aside_methods[] = {
    {"aside", (PyCFunction)(void (*)(void))aside, METH_FASTCALL, aside_doc},
    {"handling", (PyCFunction)(void (*)(void))handling, METH_FASTCALL,
     handling_doc},
    {"soon", soon, METH_O, soon_doc},
    {"untraced", (PyCFunction)(void (*)(void))untraced, METH_FASTCALL,
     untraced_doc},
    {"uncompiled", (PyCFunction)(void (*)(void))uncompiled, METH_FASTCALL,
     uncompiled_doc},
    {"compiler", set_compiler, METH_VARARGS, compiler_doc},
    {NULL, NULL, 0, NULL},
};
