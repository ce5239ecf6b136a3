/* The most that a holder can have by its type. */
#ifndef IA_BOUNDS_H
#define IA_BOUNDS_H

#include "../heap/walk.h"

/* The most items that a holder can have by its type, or None; a new
 * reference, or NULL with an exception set. */
PyObject *ia_bound_of(const ia_walk *, uint32_t entry);

#endif /* IA_BOUNDS_H */
