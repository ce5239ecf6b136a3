/* Signals that end a program, seen by a handler that does not show.
 *
 * One that signal.getsignal() shows would keep libraries that ask before they
 * set their own from it.  So what stands in Python's table is a callable int
 * that equals SIG_DFL, and shows as that; and for the system it is a handler
 * of ours, which has the other one called on the main thread between two
 * bytecodes.  Only signals are taken whose disposition is the default one.
 *
 * Who sets another one and then puts back what it had found, or has the
 * default end the program, sets the default one by Python's function: what
 * stands in the place of that takes the signal again, if it asks for an end.
 */
#include "signals.h"
#include <errno.h>
#include <time.h>
#include <unistd.h>

/* A second signal to end after so many seconds waits no more for what the
 * first one is for. */
enum { PATIENCE = 5 };

/* Whether it is ours, whether it came since it was answered last, and when
 * first. */
static volatile sig_atomic_t is_taken[NSIG], is_open[NSIG];
static volatile time_t first_came[NSIG];
static pid_t owner;

static time_t
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static int
asks_for_an_end(int number)
{
    return number == SIGTERM || number == SIGHUP || number == SIGINT;
}

/* One that asks for a report may come again however long the program is in a
 * call. */
int
ia_signal_is_overdue(int number)
{
    if (!asks_for_an_end(number))
        return 0;
    if (is_open[number])
        return now() - first_came[number] >= PATIENCE;
    first_came[number] = now();
    is_open[number] = 1;
    return 0;
}

void
ia_signal_is_answered(int number)
{
    is_open[number] = 0;
}

/* As though we had never been there; called in the handler, where the signal
 * waits until it returns. */
static void
let_it_end(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* Async-signal-safe, as PyErr_SetInterruptEx is.  A child by fork() has the
 * handler too, and is none of ours.  C code that has set another one may call
 * this one, also when it was given back. */
void
ia_on_signal(int number)
{
    int error = errno;
    if (getpid() != owner || !is_taken[number] || ia_signal_is_overdue(number))
        let_it_end(number);
    else
        PyErr_SetInterruptEx(number);
    errno = error;
}

static int
is_valid(int number)
{
    return number > 0 && number < NSIG && number != SIGKILL &&
           number != SIGSTOP;
}

int
ia_signal_is_set_to(int number, void (*handler)(int))
{
    struct sigaction set;
    if (sigaction(number, NULL, &set) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return !(set.sa_flags & SA_SIGINFO) && set.sa_handler == handler;
}

/* Past `__import__`, in whose place the program may have something. */
static PyObject *
imported(const char *name)
{
    return PyImport_ImportModuleLevel(name, NULL, NULL, NULL, 0);
}

/* What is called for each signal that is taken, owned; and the function that
 * stood in Python's module for setting one, owned, once ours stands there. */
static PyObject *handlers[NSIG], *set_handler;

/* Puts a handler into Python's table; sets the disposition, too. */
static int
set_in_table(int number, PyObject *handler)
{
    PyObject *set = Py_XNewRef(set_handler), *module = NULL;
    if (set == NULL && (module = imported("_signal")) != NULL)
        set = PyObject_GetAttrString(module, "signal");
    Py_XDECREF(module);
    if (set == NULL)
        return -1;
    PyObject *before = PyObject_CallFunction(set, "iO", number, handler);
    Py_DECREF(set);
    Py_XDECREF(before);
    return before == NULL ? -1 : 0;
}

/* What stands in Python's table, a new reference. */
static PyObject *
in_table(int number)
{
    PyObject *module = imported("_signal");
    if (module == NULL)
        return NULL;
    PyObject *found = PyObject_CallMethod(module, "getsignal", "i", number);
    Py_DECREF(module);
    return found;
}

/* 1 where it stands there, 0 where not, -1 with an exception. */
static int
is_in_table(int number, PyObject *handler)
{
    PyObject *found = in_table(number);
    Py_XDECREF(found);
    return found == NULL ? -1 : found == handler;
}

int
ia_signal_calls_python(int number)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *found = in_table(number);
    int is_called = found != NULL && PyCallable_Check(found);
    Py_XDECREF(found);
    PyErr_Restore(type, value, trace);
    return is_called;
}

/* The disposition, where Python's table has what is called. */
static int
set_ours(int number)
{
    /* No SA_RESTART: Python looks for signals when a call is interrupted. */
    struct sigaction ours = {.sa_handler = ia_on_signal};
    sigemptyset(&ours.sa_mask);
    if (sigaction(number, &ours, NULL) == 0)
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

/* Takes it from the default disposition; 1 where it did, 0 where that was
 * another one, -1 with an exception. */
static int
take_default(int number, PyObject *handler)
{
    int is_default = ia_signal_is_set_to(number, SIG_DFL);
    if (is_default <= 0)
        return is_default;
    if (set_in_table(number, handler) < 0)
        return -1;
    /* A Python that went by its value has set the default one. */
    is_default = ia_signal_is_set_to(number, SIG_DFL);
    if (is_default != 0)
        return is_default < 0 ? -1 : 0;
    return set_ours(number) < 0 ? -1 : 1;
}

/* -- the default one is set again ----------------------------------------- */

/* Takes it again, where it is ours and asks for an end; 0, or -1 with what a
 * handler that ran meanwhile has raised: first of all, for it may set one. */
static int
take_again(int number)
{
    if (!asks_for_an_end(number) || owner != getpid())
        return 0;
    if (PyErr_CheckSignals() < 0)
        return -1;
    return is_taken[number] && take_default(number, handlers[number]) < 0 ? -1
                                                                         : 0;
}

/* Python's function, and then ours again where it has set the default one. */
static PyObject *
set_and_take(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    PyObject *before =
        PyObject_Vectorcall(set_handler, args, (size_t)n, NULL);
    if (before == NULL || n < 1 || !PyLong_Check(args[0]))
        return before;
    int overflows;
    long number = PyLong_AsLongAndOverflow(args[0], &overflows);
    if (number > 0 && number < NSIG && take_again((int)number) < 0)
        Py_CLEAR(before);
    return before;
}

static PyMethodDef set_and_take_method = {
    "signal", (PyCFunction)(void (*)(void))set_and_take, METH_FASTCALL,
    "signal($module, signalnum, handler, /)\n--\n\n"
    "Set the action for the given signal, as Python's own."};

static int
is_ours(PyObject *function)
{
    return PyCFunction_Check(function) &&
           PyCFunction_GET_FUNCTION(function) ==
               (PyCFunction)(void (*)(void))set_and_take;
}

static int
put_ours(PyObject *module, PyObject *found)
{
    /* One of the program's that stands there since may call ours. */
    if (set_handler == NULL)
        set_handler = Py_NewRef(found);
    if (found != set_handler)
        return 0;
    PyObject *name = PyModule_GetNameObject(module);
    PyObject *ours =
        name ? PyCFunction_NewEx(&set_and_take_method, module, name) : NULL;
    int bad = ours == NULL ||
              PyObject_SetAttrString(module, "signal", ours) < 0;
    Py_XDECREF(name);
    Py_XDECREF(ours);
    return bad ? -1 : 0;
}

/* Ours stands in the place of Python's, or no more; 0, or -1 with an
 * exception. */
static int
stand_in(int on)
{
    PyObject *module = imported("_signal");
    PyObject *found =
        module ? PyObject_GetAttrString(module, "signal") : NULL;
    int bad = found == NULL;
    if (found != NULL && on)
        bad = put_ours(module, found) < 0;
    else if (found != NULL && is_ours(found))
        bad = PyObject_SetAttrString(module, "signal", set_handler) < 0;
    Py_XDECREF(found);
    Py_XDECREF(module);
    return bad ? -1 : 0;
}

PyDoc_STRVAR(take_doc,
             "take($module, number, handler, /)\n--\n\n"
             "Have handler(number, frame) called for this signal; on the main\n"
             "thread.  It is an int that equals SIG_DFL and can be called.\n\n"
             "False where its disposition is not the default one: nothing\n"
             "was changed then.");

static PyObject *
take(PyObject *Py_UNUSED(self), PyObject *args)
{
    int number;
    PyObject *handler;
    if (!PyArg_ParseTuple(args, "iO", &number, &handler))
        return NULL;
    if (!is_valid(number)) {
        PyErr_SetString(PyExc_ValueError, "no signal that can be caught");
        return NULL;
    }
    int taken = take_default(number, handler);
    if (taken <= 0)
        return taken < 0 ? NULL : Py_NewRef(Py_False);
    if (stand_in(1) < 0) {
        signal(number, SIG_DFL);
        return NULL;
    }
    owner = getpid();
    is_open[number] = 0;
    Py_XSETREF(handlers[number], Py_NewRef(handler));
    is_taken[number] = 1;
    return Py_NewRef(Py_True);
}

PyDoc_STRVAR(answer_doc, "answer($module, number, /)\n--\n\n"
                         "What this signal is for has been done.");

static PyObject *
answer(PyObject *Py_UNUSED(self), PyObject *arg)
{
    long number = PyLong_AsLong(arg);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (number > 0 && number < NSIG)
        is_open[number] = 0;
    Py_RETURN_NONE;
}

/* -- and given back ------------------------------------------------------- */

/* The default disposition, where it is ours, also where it is to come back
 * after a wait; 1 where it was, 0 where not, -1 with an exception. */
static int
set_default(int number)
{
    int ours = ia_signal_is_set_to(number, ia_on_signal);
    if (ours > 0)
        signal(number, SIG_DFL);
    return ours ? ours : ia_signal_ends_after_wait(number);
}

/* Those that are taken again where the default one is set. */
static int
any_is_taken_again(void)
{
    for (int number = 1; number < NSIG; number++)
        if (is_taken[number] && asks_for_an_end(number))
            return 1;
    return 0;
}

PyDoc_STRVAR(give_back_doc,
             "give_back($module, number, handler, /)\n--\n\n"
             "The default disposition again, unless somebody else has set\n"
             "another one meanwhile; whether it was still ours.  On any\n"
             "thread: Python's table is changed on the main one alone, and\n"
             "has, elsewhere, what shows as the default.");

static PyObject *
give_back(PyObject *Py_UNUSED(self), PyObject *args)
{
    int number;
    PyObject *handler;
    if (!PyArg_ParseTuple(args, "iO", &number, &handler))
        return NULL;
    if (!is_valid(number))
        Py_RETURN_FALSE;
    int ours = set_default(number);
    if (ours < 0)
        return NULL;
    is_open[number] = is_taken[number] = 0;
    Py_CLEAR(handlers[number]);
    /* A change of the table sets the disposition, too: with one that C code
     * has set, which is in no table, or that waits, it stays as it is. */
    int shown = ia_is_main_thread() ? ia_signal_is_set_to(number, SIG_DFL) : 0;
    if (shown > 0)
        shown = is_in_table(number, handler);
    if (shown < 0)
        PyErr_Clear(); /* of what the program has put in Python's place */
    if (shown > 0) {
        PyObject *none = PyLong_FromVoidPtr((void *)SIG_DFL);
        int set = none == NULL ? -1 : set_in_table(number, none);
        Py_XDECREF(none);
        if (set < 0)
            return NULL;
    }
    if (!any_is_taken_again() && stand_in(0) < 0)
        return NULL;
    return PyBool_FromLong(ours);
}

PyMethodDef ia_taken_methods[] = {
    {"take", take, METH_VARARGS, take_doc},
    {"answer", answer, METH_O, answer_doc},
    {"give_back", give_back, METH_VARARGS, give_back_doc},
    {NULL, NULL, 0, NULL},
};
