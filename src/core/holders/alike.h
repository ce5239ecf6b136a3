/* What holders that differ by an index keep together. */
#ifndef IA_ALIKE_H
#define IA_ALIKE_H

#include "holders.h"

/* `by_class[3]` and `by_class[4]`, `heads[0].losses` and `heads[1].losses`:
 * where some of them have storages or graph nodes in common, which none frees
 * alone, the first is charged with what cutting all of them frees, and the
 * others with nothing.  Those that are no holders themselves, as what they have
 * was met in another, lose their references to what the same functions made.
 * One more walk, and none where no holders are like that.  0, or -1 when memory
 * is short. */
int ia_alike_measure(const ia_walk *, const ia_groups *, const ia_holders *,
                     ia_cost *costs);

#endif /* IA_ALIKE_H */
