/* Python objects that have a C++ object in them, by way of pybind11.
 *
 * What the C++ object holds they do not tell the collector: a script's
 * attributes, a class of an extension's.  But where the C++ object stands they
 * have in their own memory.
 */
#ifndef IA_WRAPPERS_H
#define IA_WRAPPERS_H

#include "../native/blocks.h"

typedef struct {
    ia_block *bodies; /* owned; where each object's own memory is */
    uint32_t count, capacity;
    int failed;
} ia_wrappers;

/* All that a walk from the roots meets, borrowed: good while the GIL is held
 * and the collector is off.  0, or -1 when memory is short. */
int ia_wrappers_find(ia_wrappers *);
void ia_wrappers_free(ia_wrappers *);

#endif /* IA_WRAPPERS_H */
