/* Sites: which line of the user's program allocated a storage.
 *
 * A stack is known on the hot path by a hash over its frames' (code,
 * instruction); only the first sight of one reads names and lines.  A line
 * that a recursion comes back to is kept once, so that call paths which never
 * repeat are few stacks all the same.
 *
 * Stacks and sites that nothing names any more are dropped by a sweep, and
 * their ids are given out again.  So an id is good under the ledger's lock, or
 * where its owner marks it at every sweep (steps/sweep.c lists the owners).
 * Whoever keeps one longer, as all of Python does, keeps its number: numbers
 * are never used again, and that of what was dropped is known to be.
 *
 * Every function expects the lock to be held.
 */
#ifndef IA_SITES_H
#define IA_SITES_H

#include "sources.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Different lines of a stack that are kept: a Trainer's forward has some 30.
 * A report shows the user's line and those around it, so lines of libraries
 * are left out first, the farthest from the user's before the others. */
#define IA_KEPT_FRAMES 48

/* A sweep is due once so many stacks were made since the last one, less than a
 * MiB, in addition to as many as were in use then. */
#define IA_SWEEP_AFTER 2048

#define IA_NO_STACK 0u /* allocated by a thread without a Python frame */
#define IA_NO_SITE 0u
#define IA_DROPPED UINT32_MAX /* what a number stood for is gone */

typedef struct {
    uint32_t *frames; /* owned; sources, innermost first */
    uint32_t site;
    uint16_t count;
    uint16_t user; /* which of them the site is */
} ia_stack;

/* Stack id of a captured stack, which it is noted in.  Where memory is short
 * lines are missing in it, or it is IA_NO_STACK: that is counted. */
static inline uint32_t ia_stack_intern(ia_raw_stack *);
uint32_t ia_stack_look_up(ia_raw_stack *); /* where it is not noted yet */

/* The stack of what a call without a Python frame of its own does, named by
 * `function`, as if `stack` had called it. */
uint32_t ia_stack_behind(uint32_t stack, const char *function, size_t length);

/* How often a stack came out without some of its lines, since that was last
 * forgotten. */
uint64_t ia_stacks_lost(void);
void ia_stacks_forget_lost(void);

uint32_t ia_stack_site(uint32_t stack);
const ia_stack *ia_stack_get(uint32_t stack);
const ia_source_frame *ia_stack_frame(const ia_stack *, int i);

/* The site of a source that some stack holds; IA_NO_SITE when memory is
 * short. */
uint32_t ia_site_of_source(uint32_t source);
/* The user's line behind a site; NULL for IA_NO_SITE and for a free id. */
const ia_source_frame *ia_site_source(uint32_t site);
/* Ids 0 .. count-1, free ones included. */
uint32_t ia_site_count(void);

/* An id's number, and the id that it stands for, or IA_DROPPED. */
uint64_t ia_stack_number(uint32_t stack);
uint64_t ia_site_number(uint32_t site);
uint32_t ia_stack_of_number(uint64_t number);
uint32_t ia_site_of_number(uint64_t number);

/* Nothing is dropped meanwhile, so that ids and strings can be used without
 * the lock.  They nest. */
void ia_stacks_pin(void);
void ia_stacks_unpin(void);
int ia_stacks_are_pinned(void);
/* In the child of a fork: who had something pinned may be gone. */
void ia_stacks_after_fork(void);

/* A sweep marks what is named, drops the stacks that are neither marked nor
 * came up (again) since the last sweep, marks the sites of the others and
 * such sites as are worth keeping, and drops the rest, which those who know
 * things of it forget.  It needs the GIL besides, so that no other thread is
 * between two uses of an id. */
extern atomic_uint ia_stacks_made; /* since the last one */
extern atomic_uint ia_stacks_in_use; /* at the last one */
static inline int
ia_stacks_sweep_is_due(void)
{
    return atomic_load_explicit(&ia_stacks_made, memory_order_relaxed) >=
           IA_SWEEP_AFTER + atomic_load_explicit(&ia_stacks_in_use,
                                                 memory_order_relaxed);
}
void ia_stack_mark(uint32_t stack);
void ia_stacks_sweep(void);
void ia_site_mark(uint32_t site);
int ia_site_is_idle(uint32_t site); /* in use, and not marked */
void ia_sites_sweep(void (*forget)(uint32_t site));
/* Changes with every sweep: which stacks come up again is noted once between
 * two of them. */
extern uint32_t ia_stacks_epoch;

/* Code may have ended unseen: no path is known any more. */
void ia_stacks_forget_paths(void);

int ia_stacks_init(void);
int ia_sites_init(void);
size_t ia_stacks_bytes(void);
size_t ia_sites_bytes(void);

static inline uint32_t
ia_stack_intern(ia_raw_stack *raw)
{
    if (raw->stack != IA_NO_STACK && raw->epoch == ia_stacks_epoch)
        return raw->stack;
    return ia_stack_look_up(raw);
}

#endif /* IA_SITES_H */
