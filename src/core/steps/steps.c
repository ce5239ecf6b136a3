/* Steps: what ends one, and what is done at its end.
 *
 * The strongest event that a program shows ends its steps: an optimizer step,
 * else a backward, else a call of a top-level module.  A stronger kind that
 * appears takes over and the warm-up starts again.  When the kind that took
 * over stays away for long (training is over, the model serves), the next
 * weaker one ends steps in its place, provisionally: nothing that is seen
 * then counts as confirmed.
 */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/kinds.h"
#include "../ledger/ledger.h"
#include "../ledger/tensors.h"
#include "criterion.h"
#include "failure.h"
#include "graphs.h"
#include "optimizers.h"
#include "steps.h"
#include "sweep.h"

#include <string.h>
#include <time.h>

#define NO_SOURCE 99

/* Weaker events without a stronger one before they end steps: so many, and so
 * many times the most that were ever seen between two stronger ones. */
#define QUIET_EVENTS 64
#define QUIET_FACTOR 8

/* Share of the run that probing graphs may take. */
#define PROBE_SHARE 0.003
#define PROBE_BUDGET 400000
#define PROBE_EVERY 2 /* steps, at most this often */
#define FREE_PROBES 10 /* made in any case, so that a first word comes soon */

#define HISTORY 4096

static struct {
    ia_stepping_options options;
    int source; /* ia_event or NO_SOURCE */
    uint32_t step;
    uint32_t offset; /* steps before the strongest kind took over */
    uint32_t since[IA_EVENT_MANUAL + 1]; /* events since the last boundary */
    uint32_t most[IA_EVENT_MANUAL + 1];
    int provisional;
    int busy; /* inside a boundary: events of our own don't count */
    int collector_waits; /* the program's collector is on, but for this look */
    uint32_t look_at;
    uint32_t next_probe, probes;
    double started, last, boundary_seconds, callback_seconds, step_seconds;
    ia_history_point history[HISTORY];
    uint32_t nhistory, stride;
} run;

static uint32_t serial; /* of the run: a look may end one and begin another */

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* -- history ------------------------------------------------------------- */

/* When it is full every second point goes, and half as many come. */
static void
note_history(uint32_t suspects, uint64_t live_bytes)
{
    if (run.step % run.stride != 0)
        return;
    if (run.nhistory == HISTORY) {
        for (size_t i = 0; i < HISTORY / 2; i++)
            run.history[i] = run.history[2 * i];
        run.nhistory = HISTORY / 2;
        run.stride *= 2;
        if (run.step % run.stride != 0)
            return;
    }
    run.history[run.nhistory++] = (ia_history_point){
        run.step, suspects, live_bytes, now() - run.started};
}

/* -- boundaries ---------------------------------------------------------- */

void
ia_stepping_refresh(void)
{
    ia_tensors_resolve();
    if (ia_the_framework != NULL)
        ia_the_framework->sweep();
}

static void
probe_graphs(void)
{
    if (run.step < run.next_probe)
        return;
    double start = now();
    ia_graphs_probe(run.step, PROBE_BUDGET);
    double cost = now() - start;
    double pause = run.step_seconds > 0 && ++run.probes > FREE_PROBES
                       ? cost / (PROBE_SHARE * run.step_seconds)
                       : 0;
    run.next_probe =
        run.step + (pause > PROBE_EVERY ? (uint32_t)pause : PROBE_EVERY);
}

/* An interrupt, or a sys.exit() in a signal handler: the program's, though it
 * came while our Python code ran.  Raised again where the program goes on. */
static int
raise_again(void *exception)
{
    PyObject *value = exception;
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return -1;
}

static void
pass_on_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    if (Py_AddPendingCall(raise_again, value) < 0)
        Py_DECREF(value);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}

/* 0 where the look has ended this run and begun another. */
static int
call_back(void)
{
    double start = now();
    int collecting = PyGC_Disable();
    uint32_t this_run = serial;
    run.collector_waits = collecting;
    PyObject *callback = Py_NewRef(run.options.callback);
    PyObject *result = PyObject_CallFunction(callback, "I", run.step);
    Py_DECREF(callback);
    if (result == NULL && !PyErr_ExceptionMatches(PyExc_Exception))
        pass_on_exception();
    else if (result == NULL)
        ia_fail_with_exception("a look at the suspects failed");
    Py_XDECREF(result);
    if (collecting)
        PyGC_Enable();
    if (serial != this_run)
        return 0;
    run.collector_waits = 0;
    run.callback_seconds += now() - start;
    return 1;
}

static void
measure_step(double t)
{
    if (run.last > 0) {
        double took = t - run.last;
        run.step_seconds = run.step_seconds == 0
                               ? took
                               : 0.9 * run.step_seconds + 0.1 * took;
    }
}

static void
boundary(void)
{
    uint32_t fresh = 0;
    uint64_t live;
    double start = now();
    int check = run.step % run.options.every == 0;
    run.busy = 1;
    measure_step(start);
    ia_graphs_end_step();
    if (check) {
        ia_stepping_refresh();
        probe_graphs();
    }
    ia_ledger_lock();
    if (check)
        fresh = ia_criterion_note(run.step);
    live = ia_ledger_totals_now()->live_bytes;
    ia_ledger_next_generation();
    ia_ledger_unlock();
    ia_sweep();
    note_history(fresh, live);
    run.boundary_seconds += now() - start;
    if ((fresh > 0 || (run.look_at != 0 && run.step >= run.look_at)) &&
        run.options.callback != NULL) {
        run.look_at = 0;
        if (!call_back())
            return;
    }
    ia_optimizers_at(++run.step);
    run.last = now();
    run.busy = 0;
}

/* -- events -------------------------------------------------------------- */

static void
take_over(int event)
{
    run.source = event;
    memset(run.since, 0, sizeof run.since);
    memset(run.most, 0, sizeof run.most);
    run.offset = run.step;
    if (run.step == 0)
        return;
    /* Generations so far were counted in another unit. */
    ia_ledger_lock();
    ia_ledger_restart_warmup(run.options.warmup);
    ia_criterion_reset(run.step + run.options.warmup, run.options.window);
    ia_ledger_unlock();
}

static int
has_gone_quiet(int event)
{
    uint32_t limit = QUIET_FACTOR * run.most[event];
    return run.since[event] > (limit > QUIET_EVENTS ? limit : QUIET_EVENTS);
}

static int
ends_step(int event)
{
    if (event == IA_EVENT_MANUAL)
        return 1;
    if (run.options.manual)
        return 0;
    if (event < run.source)
        take_over(event);
    if (event == run.source) {
        for (int i = event + 1; i < IA_EVENT_MANUAL; i++) {
            if (run.since[i] > run.most[i] && !run.provisional)
                run.most[i] = run.since[i];
            run.since[i] = 0;
        }
        run.provisional = 0;
        return 1;
    }
    run.since[event]++;
    if (!has_gone_quiet(event))
        return 0;
    run.provisional = 1;
    return 1;
}

void
ia_stepping_event(ia_event event)
{
    if (!ia_active || run.busy)
        return;
    if (ends_step((int)event))
        boundary();
}

/* -- start, stop, status ------------------------------------------------- */

void
ia_stepping_start(const ia_stepping_options *options)
{
    memset(&run, 0, sizeof run);
    serial++;
    ia_failure_forget();
    ia_optimizers_reset();
    ia_graphs_reset();
    run.options = *options;
    run.source = NO_SOURCE;
    run.stride = 1;
    run.started = now();
    run.next_probe = options->warmup;
    ia_active = 1;
}

void
ia_stepping_stop(void)
{
    ia_active = 0;
    Py_CLEAR(run.options.callback);
}

void
ia_stepping_look_at(uint32_t step)
{
    run.look_at = step;
}

PyObject *
ia_stepping_status(void)
{
    static const char *const sources[] = {"optimizer", "backward", "module",
                                          "manual"};
    const char *source = run.options.manual ? "manual"
                         : run.source == NO_SOURCE
                             ? NULL
                             : sources[run.source];
    const char *failed = ia_failure();
    return Py_BuildValue(
        "{s:I,s:I,s:z,s:O,s:d,s:d,s:d,s:d,s:O,s:N}", "steps", run.step, "offset",
        run.offset, "source", source, "provisional",
        run.provisional ? Py_True : Py_False,
        "boundary_seconds", run.boundary_seconds, "callback_seconds",
        run.callback_seconds, "step_seconds", run.step_seconds,
        "elapsed_seconds", now() - run.started, "collector",
        run.collector_waits || PyGC_IsEnabled() ? Py_True : Py_False,
        "failure", failed ? ia_str(failed) : Py_NewRef(Py_None));
}

PyObject *
ia_stepping_history(void)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < run.nhistory; i++) {
        const ia_history_point *p = &run.history[i];
        PyObject *item =
            Py_BuildValue("(IKd)", p->step,
                          (unsigned long long)p->live_bytes, p->seconds);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}
