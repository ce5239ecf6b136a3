/* The run's curves: what memory was like at boundaries, thinned.
 *
 * Exact figures from the ledger's own totals, of bounded size however long the
 * run is.  All under the GIL.
 */
#ifndef IA_CURVES_H
#define IA_CURVES_H

#include "../base/core_api.h"

#define IA_EVENTS (IA_EVENT_MANUAL + 1)

/* Lines whose live bytes are kept apart. */
#define IA_CURVE_LINES 12

void ia_curves_reset(void);
/* Is a point due at this tick? */
int ia_curves_due(uint32_t tick);
/* Notes one; 1 where the process was just seen, for the first time, to grow
 * beside its tensors and arrays. */
int ia_curves_note(uint32_t tick, const uint32_t *counts, double seconds);
/* Was it ever seen to? */
int ia_curves_rise(void);
/* Notes what the autograd graphs that live tensors lead to take. */
void ia_curves_note_nodes(const uint32_t *counts, uint64_t nodes,
                          uint64_t bytes);
/* For a sweep: the id will be another line's.  Under the ledger's lock. */
void ia_curves_forget_site(uint32_t site);

/* {points, lines, nodes} as _core.pyi has them; new reference. */
PyObject *ia_curves_build(void);

/* Events of each kind, as a tuple. */
PyObject *ia_counts_build(const uint32_t *counts);

#endif /* IA_CURVES_H */
