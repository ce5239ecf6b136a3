/* Whether somebody frees garbage: the collector by itself, or the program, which
 * has turned that off and has it run now and then.
 */
#ifndef IA_GARBAGE_H
#define IA_GARBAGE_H

#include <stdint.h>

void ia_garbage_start(void);

/* The collector begins to go through all there is. */
void ia_garbage_collected(uint32_t tick);

/* By itself, or as the program asks for it, whether it turns it on for that or
 * not: it is no longer ago than twice what it has ever been. */
int ia_garbage_goes(uint32_t tick);

#endif /* IA_GARBAGE_H */
