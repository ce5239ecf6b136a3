/* Storages that no root reaches: garbage cycles, and what only C++ holds. */
#ifndef IA_UNROOTED_H
#define IA_UNROOTED_H

#include "roots.h"

/* References that the caller of ours made, each as often as it made it. */
typedef struct {
    PyObject *const *items; /* borrowed */
    uint32_t count;
    uint32_t objects; /* the first ones; the rest are words, never followed */
} ia_handed;

/* Continues a finished walk from what the collector tracks but no root
 * reached.  Objects with references that nothing in there accounts for are
 * held from outside Python (IA_ROOT_OUTSIDE, tensors IA_ROOT_NATIVE); the rest
 * hangs on a garbage cycle (IA_ROOT_CYCLE; the crowd's members are on one).
 * Where C++ is part of the cycle, the collector never frees it.  References
 * that were handed in, which may be NULL, count for nothing: what nobody else
 * has comes last (IA_ROOT_CALLER).  `roots` must be the walk's own list.  0 or
 * -1 when memory is short. */
int ia_walk_unrooted(ia_walk *, ia_roots *, const ia_handed *);

#endif /* IA_UNROOTED_H */
