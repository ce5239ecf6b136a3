/* Steps: what ends one, and what is done at its end.
 *
 * All under the GIL.  A boundary resolves tensors, notes the criterion, opens
 * the next generation and, where a look is due, calls back into Python.
 */
#ifndef IA_STEPS_H
#define IA_STEPS_H

#include "../base/core_api.h"

typedef struct {
    uint32_t every;
    uint32_t warmup;
    uint32_t window;
    int manual;
    PyObject *callback; /* owned; called with the step number */
} ia_stepping_options;

/* A point of the run's history. */
typedef struct {
    uint32_t step;
    uint32_t suspects;
    uint64_t live_bytes;
    double seconds; /* since the start */
} ia_history_point;

void ia_stepping_start(const ia_stepping_options *); /* takes the callback */
void ia_stepping_stop(void);
void ia_stepping_event(ia_event);
/* Asks for a look at the end of this step, suspects or not. */
void ia_stepping_look_at(uint32_t step);
/* Brings storages that are noticed at boundaries up to date. */
void ia_stepping_refresh(void);

/* {steps, source, boundary_seconds, callback_seconds, step_seconds,
 *  provisional}; new reference. */
PyObject *ia_stepping_status(void);
/* Array of ia_history_point; new reference. */
PyObject *ia_stepping_history(void);

#endif /* IA_STEPS_H */
