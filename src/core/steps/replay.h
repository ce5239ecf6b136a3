/* The criterion on a trace that others recorded: no ledger, no clock of ours.
 *
 * Plain C without Python.
 */
#ifndef IA_REPLAY_H
#define IA_REPLAY_H

#include "criterion.h"

#include <stddef.h>
#include <stdint.h>

/* A birth, or a death of what was born at position `born` (-1: before the
 * trace began); `now` never goes back. */
typedef struct {
    int64_t site;  /* 0 .. sites - 1 */
    int64_t now;   /* position, below 2**32 */
    int64_t born;  /* a birth's own position, then as `now` */
    int64_t bytes; /* a death's are negative */
} ia_trace_event;

typedef struct {
    uint32_t age, warmup, window; /* as the criterion's */
    uint32_t sites, end;          /* position that the trace ends at */
} ia_trace_rules;

/* Fills one suspect for each site, with kinds 0 where it does not grow.  0;
 * -1 when memory is short; 1 where the events are not such as rules allow. */
int ia_replay(const ia_trace_event *, size_t count, const ia_trace_rules *,
              ia_suspect *out);

#endif /* IA_REPLAY_H */
