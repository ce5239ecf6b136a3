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

typedef struct {
    PyObject *op; /* borrowed */
    uint32_t generation;
} ia_newest_tensor;

/* The newest tensor with a graph of each site below nsites, op NULL where
 * there is none; needs a framework.  Owned by the caller, who frees it; NULL
 * when memory is short. */
ia_newest_tensor *ia_tensors_newest(uint32_t nsites);

/* Live tensors one after the other, from *at = 0 on; borrowed, NULL at the
 * end.  None is born or dies between two calls. */
PyObject *ia_tensors_next(uint32_t *at);

void ia_tensors_reset(void);
/* For a sweep: needs the GIL and the ledger's lock. */
void ia_tensors_mark_stacks(void);
uint32_t ia_tensors_count(void);
size_t ia_tensors_bytes(void);

#endif /* IA_TENSORS_H */
