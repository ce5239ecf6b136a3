/* Which garbage somebody frees: the collector by itself, or the program, which
 * has turned that off and has it run now and then.
 */
#ifndef IA_GARBAGE_H
#define IA_GARBAGE_H

#include <stdint.h>

#include "../ledger/book.h"

#define IA_GENERATIONS 3
#define IA_WHOLE (IA_GENERATIONS - 1) /* a run through all there is */

void ia_garbage_start(void);

/* A tick ends.  A run that comes though the collector was off then was asked
 * for, be it turned on for that. */
void ia_garbage_tick(void);
/* The collector begins to go through a generation and those younger. */
void ia_garbage_collected(int generation, uint32_t position, uint32_t tick);
/* Positions begin anew: nobody knows what was made since the newest run. */
void ia_garbage_forget_positions(void);

/* *from: what was made from then on goes in time, 0 where all does; 0 is
 * returned where none does.  The program has it go, where it did no longer ago
 * than twice what it has ever been; what a run left, only one through an older
 * generation will reach. */
int ia_garbage_freed_from(uint32_t tick, ia_clock clock, uint32_t *from);
/* Has the program had it run while it had turned it off? */
int ia_garbage_was_asked_for(void);

#endif /* IA_GARBAGE_H */
