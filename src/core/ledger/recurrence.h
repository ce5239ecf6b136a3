/* A place that makes memory again and again: between two of its births lies a
 * turn of a loop.
 *
 * Where a program shows no step of its own, these turns are its time.  A place
 * is an instruction and the calls that led there.  It is the first that recurs,
 * and where it falls silent the next that does: of loops inside each other
 * mostly the inner one's.  One instruction may make memory several times in a
 * row: that is one time, up to IA_MOST_IN_A_ROW.  Turns are counted as they come
 * and handed over in strides, by a call that the main thread makes between two
 * instructions of the program.
 *
 * With the ledger's lock held, but for what says that it takes it.
 */
#ifndef IA_RECURRENCE_H
#define IA_RECURRENCE_H

#include "../base/seldom.h"
#include "frames.h"

#include <stdatomic.h>
#include <stdint.h>

/* An operator has that many temporaries at most; what makes more in a row is a
 * loop that makes nothing else. */
#define IA_MOST_IN_A_ROW 64

/* Strides that are waited for the main thread: it comes with its next
 * instruction but one, unless it is in a long call. */
#define IA_MOST_WAITED 8

extern struct ia_recurrence {
    int (*tell)(void);   /* NULL where nobody asks: there are steps */
    int asked;           /* the main thread has been told to come */
    int paused;          /* what is made just now is ours; so many say so */
    uint64_t mark;       /* the place, 0: none yet */
    uint64_t last;       /* place of the last birth, */
    uint32_t in_a_row;   /* and those just before it that were there as well */
    int alone;           /* the mark is of a loop that makes nothing else */
    uint32_t gap, longest; /* births since its last, and most between two */
    uint32_t count;        /* times that it came */
    uint32_t usual;        /* `longest` when it had come half as often */
    uint32_t turns;        /* that nobody has come for yet */
    uint32_t stride;       /* so many are worth coming for */
    atomic_int waits_long;
} ia_the_recurrence;

/* From here on that tells the main thread when there are turns, from any thread
 * and without the lock; -1 where it can't just now.  NULL: no more.  Takes the
 * lock. */
void ia_recurrence_follow(int (*tell)(void));

/* Calls by which places are told apart: a library's are between the user's and
 * the instruction. */
#define IA_CALLS_OF_A_PLACE 8

/* Of code that lies where other code lay it may be the same: a stack's hash
 * changes with whatever code ends, such as that of a module that was loaded. */
static inline uint64_t
ia_recurrence_place(const ia_raw_stack *raw)
{
    uint64_t place = 1;
    for (int i = 0; i < IA_CALLS_OF_A_PLACE && i < raw->count; i++) {
        const ia_raw_frame *f = ia_raw_frame_at(raw, i);
        place ^= (uint64_t)(uintptr_t)f->code + (uint32_t)f->instr;
        place *= UINT64_C(0x9E3779B97F4A7C15);
        place ^= place >> 29;
    }
    return place | 1;
}

/* Another place than the mark has made memory. */
void ia_recurrence_other(uint64_t place);

/* 1 where somebody is to come. */
static inline int
ia_recurrence_birth(uint64_t place)
{
    struct ia_recurrence *r = &ia_the_recurrence;
    if (r->paused)
        return 0;
    if (place != r->last)
        r->in_a_row = 0;
    else if (++r->in_a_row < IA_MOST_IN_A_ROW &&
             !(r->alone && place == r->mark))
        return 0;
    r->last = place;
    if (place != r->mark) {
        ia_recurrence_other(place);
        return 0;
    }
    r->longest = r->gap > r->longest ? r->gap : r->longest;
    r->gap = 0;
    if ((r->count & (r->count + 1)) == 0)
        r->usual = r->longest;
    r->count++;
    if (++r->turns < r->stride)
        return 0;
    if (r->turns / IA_MOST_WAITED >= r->stride)
        r->waits_long = r->asked;
    return !r->asked;
}

/* The main thread has been told, and has not come for many turns.  Without the
 * lock. */
static inline int
ia_recurrence_waits_long(void)
{
    return atomic_load_explicit(&ia_the_recurrence.waits_long,
                                memory_order_relaxed);
}

/* While a look is made nothing counts; each who says so takes it back, also
 * where a watch has begun meanwhile.  Takes the lock. */
void ia_recurrence_pause(int on);
/* Nobody who has said so is there.  Takes the lock. */
void ia_recurrence_after_fork(void);
/* Tells the main thread; any thread, without the lock. */
void ia_recurrence_ask(void);
/* The main thread has come.  Takes the lock. */
void ia_recurrence_arrived(void);
/* The turns since the last time, of which none are left.  Takes the lock. */
uint32_t ia_recurrence_take(void);
/* So many are worth coming for, given what lay between the last two times, in
 * seconds.  Takes the lock. */
void ia_recurrence_stride(double seconds);

#endif /* IA_RECURRENCE_H */
