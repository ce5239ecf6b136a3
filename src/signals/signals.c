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
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "../core/base/size_limit.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
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

/* Whether it asks for an end, and the one before it came so long ago and was
 * not answered; else it is the first, or one more.  One that asks for a
 * report may come again however long the program is in a call. */
static int
is_overdue(int number)
{
    if (!asks_for_an_end(number))
        return 0;
    if (is_open[number])
        return now() - first_came[number] >= PATIENCE;
    first_came[number] = now();
    is_open[number] = 1;
    return 0;
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
static void
on_signal(int number)
{
    int error = errno;
    if (getpid() != owner || !is_taken[number] || is_overdue(number))
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

/* 1 where the disposition is as asked, 0 where not, -1 with an exception. */
static int
is_set_to(int number, void (*handler)(int))
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

/* 1 where it stands in Python's table, 0 where not, -1 with an exception. */
static int
is_in_table(int number, PyObject *handler)
{
    PyObject *module = imported("_signal");
    if (module == NULL)
        return -1;
    PyObject *found = PyObject_CallMethod(module, "getsignal", "i", number);
    Py_DECREF(module);
    Py_XDECREF(found);
    return found == NULL ? -1 : found == handler;
}

/* The disposition, where Python's table has what is called. */
static int
set_ours(int number)
{
    /* No SA_RESTART: Python looks for signals when a call is interrupted. */
    struct sigaction ours = {.sa_handler = on_signal};
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
    int is_default = is_set_to(number, SIG_DFL);
    if (is_default <= 0)
        return is_default;
    if (set_in_table(number, handler) < 0)
        return -1;
    /* A Python that went by its value has set the default one. */
    is_default = is_set_to(number, SIG_DFL);
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

/* -- signals that wait ----------------------------------------------------
 *
 * For as long as what a handler of Python's may ask for is half imported.
 * Blocking them in one thread would not do: the kernel gives a signal to
 * another, and Python runs the handler on the main thread all the same. */

static struct sigaction held[NSIG];
static atomic_int is_held[NSIG], waits[NSIG], are_held;
static pid_t holder;

/* Whoever sees last that nothing is held any more sends what came, as the
 * first that comes. */
static void
send_on(int number)
{
    if (!atomic_load(&are_held) && atomic_exchange(&waits[number], 0)) {
        is_open[number] = 0;
        kill(getpid(), number);
    }
}

/* A child by fork() has the handler too, and nobody there lets go. */
static void
on_held(int number)
{
    int error = errno;
    if (getpid() != holder) {
        sigaction(number, &held[number], NULL);
        raise(number);
    }
    else if (is_overdue(number))
        held[number].sa_handler(number);
    else {
        atomic_store(&waits[number], 1);
        send_on(number);
    }
    errno = error;
}

/* Its own flags and mask: calls that it interrupts go on as before.  What
 * a fault of the program's own raises cannot wait. */
static void
hold_one(int number)
{
    struct sigaction *set = &held[number];
    if (number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
        number == SIGILL || number == SIGABRT || (set->sa_flags & SA_SIGINFO) ||
        set->sa_handler == SIG_DFL || set->sa_handler == SIG_IGN)
        return;
    struct sigaction ours = *set;
    ours.sa_handler = on_held;
    is_held[number] = sigaction(number, &ours, NULL) == 0;
}

/* -- and given back ------------------------------------------------------- */

static int
is_main_thread(void)
{
    return syscall(SYS_gettid) == getpid();
}

/* The default disposition, where it is ours, also where it is to come back
 * after a wait; 1 where it was, 0 where not, -1 with an exception. */
static int
set_default(int number)
{
    int ours = is_set_to(number, on_signal);
    if (ours > 0)
        signal(number, SIG_DFL);
    if (ours)
        return ours;
    int comes_back = is_set_to(number, on_held);
    if (comes_back <= 0 || held[number].sa_handler != on_signal)
        return comes_back < 0 ? -1 : 0;
    held[number].sa_handler = SIG_DFL;
    return 1;
}

static int
any_is_taken(void)
{
    for (int number = 1; number < NSIG; number++)
        if (is_taken[number])
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
    int shown = is_main_thread() ? is_set_to(number, SIG_DFL) : 0;
    if (shown > 0)
        shown = is_in_table(number, handler);
    if (shown < 0)
        return NULL;
    if (shown) {
        PyObject *none = PyLong_FromVoidPtr((void *)SIG_DFL);
        int set = none == NULL ? -1 : set_in_table(number, none);
        Py_XDECREF(none);
        if (set < 0)
            return NULL;
    }
    if (!any_is_taken() && stand_in(0) < 0)
        return NULL;
    return PyBool_FromLong(ours);
}

/* -- what waits is let go ------------------------------------------------- */

/* As they were, but for those that somebody has set anew. */
static void
let_go(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction found;
        if (is_held[number] && sigaction(number, NULL, &found) == 0 &&
            !(found.sa_flags & SA_SIGINFO) && found.sa_handler == on_held)
            sigaction(number, &held[number], NULL);
        is_held[number] = 0;
    }
    atomic_store(&are_held, 0);
    for (int number = 1; number < NSIG; number++)
        send_on(number);
}

/* In a child by fork() nobody else will; what came was the parent's. */
static void
forget_parent(void)
{
    if (!are_held || holder == getpid())
        return;
    for (int number = 1; number < NSIG; number++)
        waits[number] = 0;
    let_go();
}

PyDoc_STRVAR(hold_doc,
             "hold($module, numbers, /)\n--\n\n"
             "Let these signals wait, and those that are noted, until\n"
             "let_go(); on the main thread.  False where they wait already.\n"
             "What came before is handled first: it may raise.");

static PyObject *
hold(PyObject *Py_UNUSED(self), PyObject *numbers)
{
    char asked[NSIG] = {0};
    if (!PyTuple_Check(numbers))
        return PyErr_Format(PyExc_TypeError, "no tuple of numbers");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(numbers, i));
        if (number == -1 && PyErr_Occurred())
            return NULL;
        if (number > 0 && number < NSIG)
            asked[number] = 1;
    }
    forget_parent();
    if (are_held)
        Py_RETURN_FALSE;
    holder = getpid();
    atomic_store(&are_held, 1);
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &held[number]) == 0 &&
            (asked[number] || held[number].sa_handler == on_signal))
            hold_one(number);
    }
    if (PyErr_CheckSignals() < 0) {
        let_go();
        return NULL;
    }
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(let_go_doc, "let_go($module, /)\n--\n\n"
                         "Send what came since hold(), and hold no more.");

static PyObject *
let_go_method(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    if (are_held && holder == getpid())
        let_go();
    Py_RETURN_NONE;
}

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

PyDoc_STRVAR(aside_doc,
             "aside($module, numbers, work, /, *ignored)\n--\n\n"
             "Call work() where the interpreter calls back, in the middle of\n"
             "what the program does.  The signals that numbers() gives, None\n"
             "for none to hold, are handled once this has returned: what a\n"
             "handler raises is the program's to see.  Nothing is traced, nor\n"
             "compiled.");

static int
raise_it(void *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return -1;
}

/* What is raised where nobody can pass it on is raised a little later: with
 * the main thread's next instruction, and in another thread, where it came
 * from a third one by its class, by its class. */
static void
raise_later(void)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (error != NULL && trace != NULL)
        PyException_SetTraceback(error, trace);
    int is_main = is_main_thread();
    if (is_main && error != NULL && Py_AddPendingCall(raise_it, error) == 0)
        error = NULL;
    else if (!is_main)
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

/* In C, for whatever of Python ran after let_go() would meet the handlers. */
static PyObject *
aside(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    if (n < 2)
        return PyErr_Format(PyExc_TypeError, "no numbers, or no work");
    PyThreadState *thread = PyThreadState_Get();
    PyThreadState_EnterTracing(thread);
    PyObject *compiler = paused();
    PyObject *numbers = PyObject_CallNoArgs(args[0]), *held = NULL;
    if (numbers != NULL && numbers != Py_None)
        held = hold(NULL, numbers);
    if (PyErr_Occurred())
        raise_later();
    PyObject *done = PyObject_CallNoArgs(args[1]);
    if (done == NULL)
        raise_later();
    if (held == Py_True && are_held && holder == getpid())
        let_go();
    resumed(compiler);
    PyThreadState_LeaveTracing(thread);
    Py_XDECREF(numbers);
    Py_XDECREF(held);
    Py_XDECREF(done);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uncompiled_doc,
             "uncompiled($module, work, /, *args)\n--\n\n"
             "What work(*args) gives, which no compiler takes for the\n"
             "program's.");

static PyObject *
uncompiled(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t n)
{
    if (n < 1)
        return PyErr_Format(PyExc_TypeError, "no work");
    PyObject *compiler = paused(), *type, *value, *trace;
    PyObject *done =
        PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, NULL);
    PyErr_Fetch(&type, &value, &trace);
    resumed(compiler);
    PyErr_Restore(type, value, trace);
    return done;
}

PyDoc_STRVAR(soon_doc,
             "soon($module, numbers, work, /)\n--\n\n"
             "Have the main thread do aside(numbers, work) between two of its\n"
             "bytecodes.  False where too much waits there for now.");

static int
do_it(void *both)
{
    Py_XDECREF(aside(NULL, PySequence_Fast_ITEMS((PyObject *)both), 2));
    Py_DECREF((PyObject *)both);
    return 0;
}

static PyObject *
soon(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *numbers, *work;
    if (!PyArg_ParseTuple(args, "OO", &numbers, &work))
        return NULL;
    if (Py_AddPendingCall(do_it, Py_NewRef(args)) == 0)
        Py_RETURN_TRUE;
    Py_DECREF(args);
    Py_RETURN_FALSE;
}

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

static PyMethodDef methods[] = {
    {"aside", (PyCFunction)(void (*)(void))aside, METH_FASTCALL, aside_doc},
    {"compiler", set_compiler, METH_VARARGS, compiler_doc},
    {"hold", hold, METH_O, hold_doc},
    {"uncompiled", (PyCFunction)(void (*)(void))uncompiled, METH_FASTCALL,
     uncompiled_doc},
    {"soon", soon, METH_VARARGS, soon_doc},
    {"let_go", let_go_method, METH_NOARGS, let_go_doc},
    {"threads_end", threads_end, METH_O, threads_end_doc},
    {"take", take, METH_VARARGS, take_doc},
    {"answer", answer, METH_O, answer_doc},
    {"give_back", give_back, METH_VARARGS, give_back_doc},
    {"beyond_size", beyond_size, METH_O, beyond_size_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "impactarbiter._signals",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__signals(void)
{
    return PyModuleDef_Init(&module);
}
