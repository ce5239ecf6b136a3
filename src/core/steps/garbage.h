/* Which garbage somebody frees: the collector by itself, or the program, which
 * has turned that off and has it run now and then.
 */
#ifndef IA_GARBAGE_H
#define IA_GARBAGE_H

#include <stdint.h>

#include "../ledger/book.h"

void ia_garbage_start(void);

/* The collector begins to go through what is young, or through the whole. */
void ia_garbage_collected(int whole, uint32_t position, uint32_t tick);

/* *from: what was made from then on goes in time, 0 where all does; 0 is
 * returned where none does.  The program has it go, whether it turns the
 * collector on for that or not, where it did no longer ago than twice what it
 * has ever been; what is older than such a run through the young, no other
 * one will reach. */
int ia_garbage_freed_from(uint32_t tick, ia_clock clock, uint32_t *from);

#endif /* IA_GARBAGE_H */
