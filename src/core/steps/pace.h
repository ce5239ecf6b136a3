/* How much time turns of loops are, where they are all that is known of it.
 *
 * A program's loops turn at paces of their own, and nobody says which of them
 * does its work.  Seconds are the program's, without looks, by the clock on the
 * wall unless another is named.  GIL.
 */
#ifndef IA_PACE_H
#define IA_PACE_H

#include <stdint.h>

void ia_pace_reset(void);
/* Is it time to compare again? */
int ia_pace_is_due(double now);
/* Where it is, 1 where time begins, or begins anew: what came before was a
 * preparation.  `position` is how far it had come, `work` the seconds of the
 * processor that the program has had. */
int ia_pace_begins(uint32_t position, double now, double work);
/* Has it gone on for so long that a preparation would have shown itself? */
int ia_pace_is_known(void);
/* So many of the turns that have come are as much time as they seem. */
uint32_t ia_pace_keep(uint32_t turns, uint32_t position, double now);

#endif /* IA_PACE_H */
