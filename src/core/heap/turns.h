/* Turns of a loop: what a variable of one turn holds goes with the next.
 *
 * `for epoch in range(9): train_epoch()`: whatever a variable of train_epoch()
 * gathers may be let go with the epoch.  What an argument leads to was there
 * before the call.  A call that was running when the watch began is none.
 *
 * `for epoch in range(9): losses = []; ...`: the same for a variable that the
 * loop in which its frame stands sets anew, where nothing but variables of
 * running calls holds what is in it.
 * Needs the GIL.
 */
#ifndef IA_TURNS_H
#define IA_TURNS_H

#include "walk.h"

/* Remembers the calls that are running now. */
void ia_turns_begin(void);
/* Marks the calls that a loop makes, by their frames, among all that run; 0, or
 * -1 when memory is short. */
int ia_turns_find(ia_ptrmap *);
/* Does the way to this entry begin at such a variable? */
int ia_turns_own(const ia_walk *, uint32_t entry);

#endif /* IA_TURNS_H */
