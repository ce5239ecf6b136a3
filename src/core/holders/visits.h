/* Visits: following a known holder's path again, without a walk.
 *
 * A path is kept as references with the place that each child had among what
 * its parent shows.  A visit starts at the root, looks for each child where it
 * was, else among the parent's other references, and reads the holder's length
 * only when every link held: each object is alive because the one before it
 * has just shown it.  A container that another one stands in for, which begins
 * with the same item and is no shorter (`x = x + (y,)`), is the same holder, as
 * is a pair that leads on to it (`x = (y, x)`).
 * Some microseconds, no user code, no reference kept but weak ones.
 * Needs the GIL.
 */
#ifndef IA_VISITS_H
#define IA_VISITS_H

#include "chain.h"
#include "seen.h"
#include "../heap/walk.h"

#define IA_NO_PATH 0u

/* Remembers the path down to entry `holder`: its number, or IA_NO_PATH where
 * it can't be followed again.  `container` is nonzero where the holder has
 * items.  -1 when memory is short. */
int ia_visits_remember(const ia_walk *, uint32_t holder, int container,
                       uint32_t *number);
/* `chain`, unless NULL: what the holder shows, read at the same time. */
ia_visit ia_visit_path(uint32_t path, ia_chain *chain);
/* The holder, borrowed, where its path is intact; else NULL. */
PyObject *ia_visit_holder(uint32_t path);
/* Forgets all paths but those in a list of numbers: 0, or -1 with an exception.
 */
int ia_visits_keep(PyObject *numbers);
void ia_visits_forget_all(void);

#endif /* IA_VISITS_H */
