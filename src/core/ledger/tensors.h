/* Live Python tensors that were born while we watched.
 *
 * A tensor has no storage yet when its object is allocated: it is resolved at
 * the next boundary.  Storages that no allocator hook saw (shared memory,
 * NumPy arrays, mapped files, other devices) enter the ledger here.  All
 * under the GIL; entries are addresses, never references.
 */
#ifndef IA_TENSORS_H
#define IA_TENSORS_H

#include "../base/core_api.h"

void ia_tensors_born(PyObject *);
void ia_tensors_died(PyObject *);
/* Looks at those born since the last call that are still alive. */
void ia_tensors_resolve(void);
/* Marks where in time a step ended, for the graphs. */
void ia_tensors_end_step(void);
/* Measures how many graph nodes the newest tensor of each site keeps, at most
 * `budget` nodes in all, and tells the criterion. */
void ia_tensors_probe_graphs(uint32_t step, uint64_t budget);
void ia_tensors_reset(void);
uint32_t ia_tensors_count(void);
size_t ia_tensors_bytes(void);

#endif /* IA_TENSORS_H */
