/* Whether somebody frees garbage: the collector by itself, or the program, which
 * has turned that off and has it run now and then.
 */
#ifndef IA_GARBAGE_H
#define IA_GARBAGE_H

#include <stdint.h>

void ia_garbage_start(void);

/* The collector begins to run; whether that goes through all that has become
 * garbage since it ran before: what is made while it is off stays with the
 * youngest. */
int ia_garbage_collected(uint32_t tick, int goes_through_all);

/* As far as is known: of a program that has had it run once, nobody knows when
 * it does so again. */
int ia_garbage_may_go(uint32_t tick);

/* Not longer ago than it has been before. */
int ia_garbage_goes(uint32_t tick);

#endif /* IA_GARBAGE_H */
