/* Time: what moves it on, and what is done when it moves.
 *
 * All under the GIL.  A tick resolves tensors, checks the sites whose bucket
 * has turned and, where a look is due, calls back into Python.
 */
#ifndef IA_STEPS_H
#define IA_STEPS_H

#include "../base/core_api.h"
#include "../ledger/journal.h"

typedef struct {
    uint32_t every;
    uint32_t warmup;
    uint32_t window;
    int manual;
    PyObject *callback; /* owned; called with the tick */
    PyObject *is_programs; /* owned; whose is an Exception that it raised? */
} ia_stepping_options;

void ia_stepping_start(const ia_stepping_options *); /* takes the callback */
void ia_stepping_stop(void);
void ia_stepping_event(ia_event);
/* At the end of a call that is given these arguments; borrowed, and to be had
 * by whoever looks meanwhile. */
typedef struct {
    PyObject *const *items;
    Py_ssize_t count;
} ia_call_args;
void ia_stepping_call_ends(ia_event, PyObject *const *args, Py_ssize_t count);
ia_call_args ia_stepping_args(void);
/* Whether the look is made in the middle of the program's code, anywhere. */
int ia_stepping_in_a_statement(void);
/* The clock that ages are measured by just now. */
ia_clock ia_stepping_clock(void);
/* The tick at which the position last moved. */
uint32_t ia_stepping_moved_at(void);
/* Something is made in turns that the main thread does not come for: it waits
 * for the thread that makes it, say.  No look is made. */
void ia_stepping_come_instead(void);
/* A report is asked for: it is the last word. */
void ia_stepping_settle(void);
/* Asks for a look at that tick (0: none), suspects or not, or at the first
 * after so many seconds (0: any number), whichever comes sooner. */
void ia_stepping_look_at(uint32_t tick, double within);
/* The collector begins to go through a generation and those younger. */
void ia_stepping_collected(int generation);
/* Brings storages that are noticed at boundaries up to date. */
void ia_stepping_refresh(void);

/* {ticks, position, counts, kind, clock, seconds of several kinds}; new
 * reference. */
PyObject *ia_stepping_status(void);

/* The optimizer step hook. */
void ia_stepping_optimizer(PyObject *optimizer);

#endif /* IA_STEPS_H */
