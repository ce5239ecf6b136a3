/* Plain Python values for what a diagnosis found. */
#ifndef IA_DESCRIBE_H
#define IA_DESCRIBE_H

#include "../heap/tally.h"
#include "../heap/walk.h"
#include "../holders/retained.h"

/* All return new references, or NULL with an exception set. */
PyObject *ia_cost_build(const ia_cost *);
/* [(bytes, bytes of graph nodes), ...]: what each of the objects that the
 * first `depth` edges of a path lead to retains, None where it was not
 * measured.  The last of them retains `cost`, NULL where that is not known. */
PyObject *ia_ways_build(const ia_ways *, uint32_t group,
                        const uint32_t *objects, Py_ssize_t depth,
                        const ia_cost *cost);
/* {shape, dtype, device, bytes, requires_grad} of what ref points to; None
 * and 0 throughout where it is no tensor. */
PyObject *ia_tensor_build(uintptr_t ref, uint16_t device, uint64_t bytes);
/* {purpose: bytes} over the ledger's storages that the walk knows. */
PyObject *ia_purposes_build(const ia_storages *);
/* {"types": {name: (count, bytes, owner)}, "bytes", "malloc", "own",
 * "own_malloc", "nodes", "arrays"}; types of few bytes are left out. */
PyObject *ia_tally_build(const ia_tally *, const ia_walk *);
/* The same of what was there before the watch. */
PyObject *ia_older_build(const ia_storages *);
const char *ia_purpose_name(int purpose);
/* "cpu", "cuda:0". */
PyObject *ia_device_build(uint16_t device);

#endif /* IA_DESCRIBE_H */
