/* Signals that wait for as long as code of ours runs in the middle of the
 * program's, or what a handler of Python's may ask for is half imported.
 *
 * Blocking them in one thread would not do: the kernel gives a signal to
 * another, and Python runs the handler on the main thread all the same.
 */
#include "signals.h"
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

static struct sigaction held[NSIG];
static atomic_int is_held[NSIG], waits[NSIG], are_held;
static pid_t holder;

/* Whoever sees last that nothing is held any more sends what came, as the
 * first that comes. */
static void
send_on(int number)
{
    if (!atomic_load(&are_held) && atomic_exchange(&waits[number], 0)) {
        ia_signal_is_answered(number);
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
    else if (held[number].sa_handler != SIG_DFL &&
             ia_signal_is_overdue(number))
        held[number].sa_handler(number);
    else {
        atomic_store(&waits[number], 1);
        send_on(number);
    }
    errno = error;
}

/* What a fault of the program's own raises cannot. */
static int
can_wait(int number)
{
    struct sigaction *set = &held[number];
    return number != SIGSEGV && number != SIGBUS && number != SIGFPE &&
           number != SIGILL && number != SIGABRT &&
           !(set->sa_flags & SA_SIGINFO) && set->sa_handler != SIG_DFL &&
           set->sa_handler != SIG_IGN;
}

/* Its own flags and mask: calls that it interrupts go on as before. */
static void
hold_one(int number)
{
    struct sigaction ours = held[number];
    ours.sa_handler = on_held;
    is_held[number] = sigaction(number, &ours, NULL) == 0;
}

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

/* One of Python's, or what is taken. */
static int
has_handler(int number)
{
    return held[number].sa_handler == ia_on_signal ||
           ia_signal_calls_python(number);
}

int
ia_signals_hold(int but)
{
    if (!ia_is_main_thread())
        return 0;
    forget_parent();
    if (are_held)
        return 0;
    holder = getpid();
    atomic_store(&are_held, 1);
    for (int number = 1; number < NSIG; number++)
        if (sigaction(number, NULL, &held[number]) == 0 && can_wait(number) &&
            number != but && has_handler(number))
            hold_one(number);
    return 1;
}

int
ia_signals_are_held(void)
{
    return are_held && holder == getpid();
}

void
ia_signals_let_go(void)
{
    if (ia_signals_are_held())
        let_go();
}

int
ia_signal_ends_after_wait(int number)
{
    int waits_now = ia_signal_is_set_to(number, on_held);
    if (waits_now <= 0 || held[number].sa_handler != ia_on_signal)
        return waits_now < 0 ? -1 : 0;
    held[number].sa_handler = SIG_DFL;
    return 1;
}

PyDoc_STRVAR(hold_doc,
             "hold($module, but=0, /)\n--\n\n"
             "Let the signals that Python handles wait, and those that are\n"
             "taken, until let_go(); ``but`` that one.  False where they wait\n"
             "already, and on other threads than the main one.  What came\n"
             "before is handled: it may raise, and none waits then.");

static PyObject *
hold(PyObject *Py_UNUSED(self), PyObject *args)
{
    int but = 0;
    if (!PyArg_ParseTuple(args, "|i", &but) ||
        (!ia_signals_are_held() && PyErr_CheckSignals() < 0))
        return NULL;
    int waits_now = ia_signals_hold(but);
    if (waits_now && PyErr_CheckSignals() < 0) {
        let_go();
        return NULL;
    }
    return PyBool_FromLong(waits_now);
}

PyDoc_STRVAR(let_go_doc, "let_go($module, /)\n--\n\n"
                         "Send what came since hold(), and hold no more.");

static PyObject *
let_go_method(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    ia_signals_let_go();
    Py_RETURN_NONE;
}

PyMethodDef ia_waiting_methods[] = {
    {"hold", hold, METH_VARARGS, hold_doc},
    {"let_go", let_go_method, METH_NOARGS, let_go_doc},
    {NULL, NULL, 0, NULL},
};
