/* Time: what moves it on, and what is done when it moves.
 *
 * Every boundary event (an optimizer step, a backward, a call of a top-level
 * module, arbiter.step(); turns of a loop where there is none of these) is a
 * tick.  The position counts the events of the
 * strongest kind that the program has shown, optimizer steps from the moment
 * that an optimizer exists: in positions the rollouts before an update, the
 * transforms of a data set and the tokens of a generation are no time at all.
 * Neither clock restarts.  Where the strongest kind has fallen silent (training
 * is over, the model serves), events of the kind that comes in its place move
 * the position on.
 */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/clock.h"
#include "../base/kinds.h"
#include "../ledger/ledger.h"
#include "../ledger/recurrence.h"
#include "../ledger/tensors.h"
#include "criterion.h"
#include "curves.h"
#include "exceptions.h"
#include "failure.h"
#include "garbage.h"
#include "graphs.h"
#include "optimizers.h"
#include "pace.h"
#include "steps.h"
#include "sweep.h"
#include "unseen.h"

#include <string.h>

#define NO_KIND IA_EVENTS

/* A weaker kind takes the strongest one's place when more than SILENT_FACTOR
 * times as many of it came since the last of the strongest as before: an
 * evaluation is seldom that long.  It takes SILENT_EVENTS of them, shared by the
 * events of the strongest kind: of one that came once little is known, and
 * rollouts of thousands of calls may lie before the first.  Where each call makes
 * a graph reach further back, one in SILENT_SHARE of all ticks is enough: an
 * evaluation has a use for one as long as its sequences are. */
#define SILENT_FACTOR 2
#define SILENT_EVENTS 4096
#define SILENT_SHARE 4

/* A new optimizer is looked for at each of the first OPTIMIZER_TICKS, and then
 * at one tick in OPTIMIZER_EVERY, as it takes some microseconds. */
#define OPTIMIZER_TICKS 256
#define OPTIMIZER_EVERY 64

/* All graphs together are weighed where they are probed, WEIGH_BUDGET nodes at
 * most, as long as all weighing takes at most WEIGH_SECONDS and WEIGH_SHARE of
 * the run besides. */
#define WEIGH_SECONDS 0.05
#define WEIGH_SHARE 0.005
#define WEIGH_BUDGET 2000000

/* Looks are made where a step ends, always at the same place of the program's
 * loop: between two of them lie whole steps.  What lasts for so many times as
 * many ticks as the longest step is none, but an evaluation: it is looked into.
 */
#define LONGER_THAN_STEPS 2

static struct {
    ia_stepping_options options;
    int kind; /* strongest ia_event seen so far, or NO_KIND */
    uint32_t tick;
    uint32_t position;
    uint32_t counts[IA_EVENTS]; /* events of each kind; rounds of optimizers */
    uint32_t before[IA_EVENTS]; /* at the last event of the strongest kind */
    uint32_t strongest_until;   /* position after it */
    int optimizer_classes; /* of which there were optimizers at the start */
    int trained; /* a backward or an optimizer was seen: by hand, too */
    int settled; /* a report was asked for before the strong kind came */
    int busy; /* inside a boundary: events of our own don't count */
    uint32_t look_at; /* tick; 0: none */
    double look_by; /* seconds; 0: whenever */
    uint32_t moved_at;     /* tick at which the position last moved */
    uint32_t silent_look;  /* ticks since then at which a look is due */
    int carries;           /* since then a graph reaches ever further back */
    uint32_t longest_step; /* ticks from one such to the next, at most */
    int suspects_wait; /* the criterion has found some since the last look */
    uint32_t next_probe; /* by the clock in force */
    uint32_t next_late_probe; /* by ticks since the position moved */
    double started, last, boundary_seconds, callback_seconds, tick_seconds;
    double weighing_seconds, last_weighing;
    uint32_t turns; /* of a loop, that have not moved anything yet */
} run;

static uint32_t serial; /* of the run: a look may end one and begin another */

/* -- boundaries ---------------------------------------------------------- */

void
ia_stepping_refresh(void)
{
    ia_tensors_resolve();
    if (ia_the_framework != NULL)
        ia_the_framework->sweep();
}

/* Of this thread's processor: on a busy machine the clock on the wall says
 * little of what a weighing costs. */
static double
processor_seconds(void)
{
    return ia_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

static void
weigh_graphs(void)
{
    uint64_t nodes, bytes;
    double start = processor_seconds();
    double allowed =
        WEIGH_SECONDS + WEIGH_SHARE * (ia_seconds() - run.started);
    if (run.weighing_seconds + 2 * run.last_weighing > allowed)
        return;
    if (ia_graphs_weigh(WEIGH_BUDGET, &nodes, &bytes))
        ia_curves_note_nodes(run.counts, nodes, bytes);
    run.last_weighing = processor_seconds() - start;
    run.weighing_seconds += run.last_weighing;
}

/* 1 where it was time for it. */
static int
probe_graphs(uint32_t now, uint32_t *next)
{
    if (now < *next)
        return 0;
    ia_graphs_probe(IA_PROBE_BUDGET);
    weigh_graphs();
    *next = now + 1 + now / IA_PROBES_PER_DOUBLING;
    return 1;
}

/* The program is so deep in calls that a look has no room on its stack, or has
 * no memory or no file left for it: it is made in a while. */
static void
look_later(void)
{
    PyErr_Clear();
    run.look_at = run.tick + 1 + run.tick / IA_PROBES_PER_DOUBLING;
}

/* 0 where the look has ended this run and begun another. */
static int
call_back(void)
{
    double start = ia_seconds();
    uint32_t this_run = serial;
    int seen = ia_unseen_begin();
    ia_collector_hold();
    ia_recurrence_pause(1);
    PyObject *callback = Py_NewRef(run.options.callback);
    PyObject *whose = Py_XNewRef(run.options.is_programs);
    PyObject *result = PyObject_CallFunction(callback, "I", run.tick);
    Py_DECREF(callback);
    if (result == NULL && ia_is_programs(whose))
        ia_pass_on_exception();
    else if (result == NULL && ia_is_shortage())
        look_later();
    else if (result == NULL)
        ia_fail_with_exception("a look at the suspects failed");
    Py_XDECREF(result);
    Py_XDECREF(whose);
    ia_recurrence_pause(0);
    ia_collector_release();
    ia_unseen_end(seen);
    if (serial != this_run)
        return 0;
    run.callback_seconds += ia_seconds() - start;
    return 1;
}

static void
measure_tick(double t)
{
    if (run.last > 0) {
        double took = t - run.last;
        run.tick_seconds = run.tick_seconds == 0
                               ? took
                               : 0.9 * run.tick_seconds + 0.1 * took;
    }
}

ia_clock
ia_stepping_clock(void)
{
    return run.settled ? IA_BY_TICK : IA_BY_POSITION;
}

uint32_t
ia_stepping_moved_at(void)
{
    return run.moved_at;
}

static void
note_strongest(uint32_t until)
{
    memcpy(run.before, run.counts, sizeof run.before);
    run.strongest_until = until;
}

static void
strongest_comes(uint32_t times)
{
    run.settled = run.carries = 0;
    note_strongest(run.position + times);
}

/* The kind that comes in place of the strongest, or NO_KIND. */
static int
successor(void)
{
    uint64_t known = run.kind == NO_KIND ? 0 : run.counts[run.kind];
    for (int kind = run.kind + 1; kind < IA_EVENTS; kind++) {
        uint64_t since = run.counts[kind] - run.before[kind];
        if (run.carries && since > 0)
            return kind;
        if (since > SILENT_FACTOR * (uint64_t)run.before[kind] &&
            since * (known > 0 ? known : 1) > SILENT_EVENTS)
            return kind;
    }
    return NO_KIND;
}

/* What a step is, for printing. */
static int
kind_of_steps(void)
{
    int kind = successor();
    if (kind != NO_KIND)
        return kind;
    for (kind = 0; kind < IA_EVENTS && run.counts[kind] == 0; kind++)
        ;
    return kind < IA_EVENTS ? kind : IA_EVENT_MANUAL;
}

/* What came before the first step was preparation, but all that is known. */
static void
measure_step(uint32_t ticks)
{
    if (run.position <= 2 || ticks > run.longest_step)
        run.longest_step = ticks;
    run.moved_at = run.tick;
    run.silent_look = run.next_late_probe = 0;
}

/* Whether this tick, so many `since` the position moved, is a place for looks.
 * A backward that ends a step has not let go of its graph yet: the next tick is
 * the place. */
static int
is_place_to_look(uint32_t moves, uint32_t since)
{
    int here = run.kind == IA_EVENT_BACKWARD ? since == 1 : moves > 0;
    return here || ia_stepping_clock() == IA_BY_TICK || run.position == 0 ||
           since > LONGER_THAN_STEPS * run.longest_step;
}

/* Positions say nothing of what an evaluation or a service gathers: it is
 * looked into when it has lasted for long, and for twice as long again. */
static int
is_long_silent(uint32_t since)
{
    return run.position > 0 && since >= IA_AGE_TO_TELL &&
           since > LONGER_THAN_STEPS * run.longest_step;
}

static void
look_into_silence(uint32_t since, int check)
{
    ia_ledger_lock();
    if (run.silent_look == 0)
        ia_criterion_begin_silence();
    ia_ledger_unlock();
    if (since >= run.silent_look) {
        run.silent_look = 2 * since;
        run.suspects_wait = 1;
    }
    ia_graphs_end_step();
    if (check && probe_graphs(since, &run.next_late_probe)) {
        ia_ledger_lock();
        run.carries = SILENT_SHARE * (uint64_t)since > run.tick &&
                      ia_criterion_grows_in_silence();
        ia_ledger_unlock();
    }
}

static int
is_look_wanted(double now)
{
    /* Before there is one, a look would be into a preparation. */
    if (run.kind == IA_EVENT_TURN && !ia_pace_is_known())
        return 0;
    return run.suspects_wait ||
           (run.look_at != 0 && run.tick >= run.look_at) ||
           (run.look_by != 0 && now >= run.look_by);
}

/* `moves`: so far does the position go on.  `looks`: one may be made. */
static void
boundary(uint32_t moves, int looks)
{
    uint32_t found = 0, fresh = 0;
    double start = ia_seconds();
    int check = run.tick % run.options.every == 0;
    run.busy = 1;
    measure_tick(start);
    if (check) {
        ia_garbage_tick();
        ia_stepping_refresh();
    }
    if (moves || ia_stepping_clock() == IA_BY_TICK) {
        ia_graphs_end_step();
        if (check)
            probe_graphs(ia_ledger_now((int)ia_stepping_clock()),
                         &run.next_probe);
    }
    run.position += moves;
    run.tick++;
    ia_ledger_lock();
    ia_ledger_tick(run.position);
    if (check)
        found = ia_criterion_check(ia_stepping_clock(), &fresh);
    ia_ledger_unlock();
    ia_sweep();
    if (ia_curves_due(run.tick))
        fresh += (uint32_t)ia_curves_note(run.tick, run.counts,
                                          ia_seconds() - run.started);
    run.last = ia_seconds();
    run.boundary_seconds += run.last - start;
    /* Lines that grew before wait for the look that is to come anyway. */
    run.suspects_wait |= fresh > 0 || (found > 0 && run.look_at == 0);
    uint32_t since = run.tick - run.moved_at;
    if (moves)
        measure_step(since);
    else if (is_long_silent(since))
        look_into_silence(since, check);
    if (looks && is_place_to_look(moves, since) && is_look_wanted(start) &&
        run.options.callback != NULL) {
        run.look_at = 0;
        run.look_by = 0;
        run.suspects_wait = 0;
        if (!call_back())
            return;
        run.last = ia_seconds();
    }
    run.busy = 0;
}

/* -- events -------------------------------------------------------------- */

static void
begin_kind(int kind)
{
    int first = run.kind == NO_KIND;
    if (kind != IA_EVENT_TURN)
        ia_recurrence_follow(NULL);
    if (run.kind == IA_EVENT_TURN)
        ia_curves_reset(); /* a preparation is no part of what grows */
    run.kind = kind;
    run.position = 0;
    run.next_probe = run.options.warmup;
    ia_garbage_forget_positions();
    note_strongest(0);
    if (first)
        return;
    ia_ledger_lock();
    ia_ledger_forget_positions();
    ia_criterion_forget_positions();
    ia_ledger_unlock();
}

/* Steps are optimizer steps as soon as there is an optimizer: what a program
 * does between making one and its first step is preparation. */
static void
look_for_optimizer(void)
{
    if (run.kind == IA_EVENT_OPTIMIZER || ia_the_framework == NULL ||
        ia_the_framework->optimizer_classes == NULL ||
        (run.tick > OPTIMIZER_TICKS && run.tick % OPTIMIZER_EVERY != 0))
        return;
    if (ia_the_framework->optimizer_classes() > run.optimizer_classes)
        begin_kind(IA_EVENT_OPTIMIZER);
}

void
ia_stepping_event(ia_event event)
{
    if (!ia_active || run.busy)
        return;
    run.trained |= event == IA_EVENT_BACKWARD;
    if (run.options.manual && event != IA_EVENT_MANUAL)
        return;
    if (event != IA_EVENT_OPTIMIZER)
        look_for_optimizer();
    if ((int)event < run.kind)
        begin_kind((int)event);
    run.counts[event]++;
    int strongest = (int)event == run.kind || event == IA_EVENT_MANUAL;
    if (strongest)
        strongest_comes(1);
    boundary(strongest || (int)event == successor(), 1);
}

/* The program's own, without looks: on the wall, and of the processor. */
static double
program_seconds(void)
{
    return ia_seconds() - run.callback_seconds;
}

static double
program_work(void)
{
    return ia_clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - run.callback_seconds;
}

static int in_a_statement;

static void
move_by_turns(int looks)
{
    uint32_t turns = run.turns;
    run.turns = 0;
    if (run.kind < IA_EVENT_TURN || turns == 0)
        return;
    ia_recurrence_stride(run.last > 0 ? ia_seconds() - run.last : 1);
    double now = program_seconds();
    if (ia_pace_is_due(now) &&
        ia_pace_begins(run.position, now, program_work()))
        begin_kind(IA_EVENT_TURN);
    turns = ia_pace_keep(turns, run.position, now);
    if (turns == 0)
        return;
    run.counts[IA_EVENT_TURN] += turns;
    strongest_comes(turns);
    boundary(turns, looks);
}

/* For Py_AddPendingCall. */
static int
come_for_turns(void *unused)
{
    (void)unused;
    ia_recurrence_arrived();
    run.turns += ia_recurrence_take();
    /* A finalizer may run in the middle of a collection, and this in the
     * middle of a report. */
    if (!ia_active || run.busy || ia_the_recurrence.paused ||
        ia_ledger_collecting())
        return 0;
    look_for_optimizer();
    in_a_statement = 1;
    move_by_turns(1);
    in_a_statement = 0;
    return 0;
}

/* There is room for few pending calls. */
static int
tell_main_thread(void)
{
    return Py_AddPendingCall(come_for_turns, NULL);
}

int
ia_stepping_in_a_statement(void)
{
    return in_a_statement;
}

static _Thread_local ia_call_args ending; /* a look may let others run */

void
ia_stepping_call_ends(ia_event event, PyObject *const *args, Py_ssize_t count)
{
    ia_call_args before = ending;
    ending = (ia_call_args){args, count};
    /* One that trains is a call, too, by which evaluations are measured. */
    if (event == IA_EVENT_BACKWARD && ia_active && !run.busy &&
        !run.options.manual)
        run.counts[IA_EVENT_COMPILED]++;
    ia_stepping_event(event);
    ending = before;
}

ia_call_args
ia_stepping_args(void)
{
    return ending;
}

void
ia_stepping_optimizer(PyObject *optimizer)
{
    if (!ia_active || run.busy)
        return;
    run.trained = 1;
    if (run.options.manual)
        return;
    if (run.kind != IA_EVENT_OPTIMIZER)
        begin_kind(IA_EVENT_OPTIMIZER);
    uint32_t moves =
        ia_optimizers_step(optimizer, run.counts[IA_EVENT_OPTIMIZER]) != 0;
    run.counts[IA_EVENT_OPTIMIZER] += moves;
    if (moves)
        strongest_comes(1);
    boundary(moves, 1);
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
    ia_curves_reset();
    ia_pace_reset();
    ia_garbage_start();
    run.options = *options;
    run.kind = options->manual ? IA_EVENT_MANUAL : NO_KIND;
    run.started = ia_seconds();
    run.next_probe = options->warmup;
    if (!options->manual && ia_the_framework != NULL &&
        ia_the_framework->optimizer_classes != NULL) {
        run.optimizer_classes = ia_the_framework->optimizer_classes();
        if (run.optimizer_classes > 0 && ia_optimizers_exist())
            run.kind = IA_EVENT_OPTIMIZER;
    }
    if (run.kind == NO_KIND)
        ia_recurrence_follow(tell_main_thread);
    ia_active = 1;
}

void
ia_stepping_stop(void)
{
    ia_active = 0;
    ia_recurrence_follow(NULL);
    ia_optimizers_let_go();
    Py_CLEAR(run.options.callback);
    Py_CLEAR(run.options.is_programs);
}

void
ia_stepping_come_instead(void)
{
    if (!ia_active || run.busy)
        return;
    run.turns += ia_recurrence_take();
    move_by_turns(0);
}

/* An optimizer that never steps makes no time: what has been seen so far was
 * seen by ticks. */
void
ia_stepping_settle(void)
{
    run.settled = run.position == 0;
}

void
ia_stepping_collected(int generation)
{
    ia_garbage_collected(generation, run.position, run.tick);
}

void
ia_stepping_look_at(uint32_t tick, double within)
{
    run.look_at = tick;
    run.look_by = within > 0 ? ia_seconds() + within : 0;
}

PyObject *
ia_stepping_status(void)
{
    const char *failed = ia_failure();
    uint32_t from;
    int frees = ia_garbage_freed_from(run.tick, ia_stepping_clock(), &from);
    return Py_BuildValue(
        "{s:I,s:I,s:N,s:I,s:N,s:i,s:i,s:O,s:d,s:d,s:d,s:d,s:N,s:O,s:O,s:O,s:N}",
        "ticks", run.tick, "position", run.position, "counts",
        ia_counts_build(run.counts), "strongest_until", run.strongest_until,
        "strongest_counts", ia_counts_build(run.before), "kind",
        kind_of_steps(), "clock", (int)ia_stepping_clock(), "trained",
        run.trained ? Py_True : Py_False, "boundary_seconds",
        run.boundary_seconds, "callback_seconds", run.callback_seconds,
        "tick_seconds", run.tick_seconds, "elapsed_seconds",
        ia_seconds() - run.started, "freed_from",
        frees ? PyLong_FromUnsignedLong(from) : Py_NewRef(Py_None),
        "collects", ia_garbage_was_asked_for() ? Py_True : Py_False, "rises",
        ia_curves_rise() ? Py_True : Py_False, "silent",
        is_long_silent(run.tick - run.moved_at) ? Py_True : Py_False, "failure",
        failed ? ia_str(failed) : Py_NewRef(Py_None));
}
