/* Plain Python values for what a diagnosis found. */
#ifndef IA_DESCRIBE_H
#define IA_DESCRIBE_H

#include "cuts.h"
#include "heapwalk.h"

/* All return new references, or NULL with an exception set. */
PyObject *ia_cost_build(const ia_cost *);
/* {shape, dtype, device, generation, bytes, requires_grad} */
PyObject *ia_tensor_build(const ia_walk *, const ia_reached *);
/* {purpose: bytes} over the ledger's storages that the walk knows. */
PyObject *ia_purposes_build(const ia_storages *);
const char *ia_purpose_name(int purpose);
/* The most items that a holder can have by its type, or None. */
PyObject *ia_bound_of(const ia_walk *, uint32_t entry);
/* "cpu", "cuda:0" */
PyObject *ia_device_build(uint16_t device);

#endif /* IA_DESCRIBE_H */
