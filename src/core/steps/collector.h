/* Whether somebody frees garbage: the collector by itself, or the program, which
 * has turned that off and has it run now and then.
 */
#ifndef IA_COLLECTOR_H
#define IA_COLLECTOR_H

#include <stdint.h>

void ia_collector_start(void);

/* It begins to run; whether that goes through all that has become garbage since
 * the run before: what is made while it is off stays with the youngest. */
int ia_collector_runs(uint32_t tick, int goes_through_all);

/* As far as is known: of a program that has had it run once, nobody knows when
 * it does so again. */
int ia_collector_may_come(uint32_t tick);

/* Not longer ago than it has been before. */
int ia_collector_comes(uint32_t tick);

#endif /* IA_COLLECTOR_H */
