/* Roots of objects that nothing leads to: those of one type go together, and
 * what one function was made for, be it bound. */
#ifndef IA_CROWDS_H
#define IA_CROWDS_H

#include "roots.h"

typedef struct {
    PyObject **items; /* owned array of borrowed references */
    uint32_t count, capacity;
} ia_object_list;

int ia_object_list_add(ia_object_list *, PyObject *);

/* Seeds one crowd per type, or function, then goes on to what they hold; sorts
 * the list.  0, or -1 when memory is short. */
int ia_walk_seed_crowds(ia_walk *, ia_roots *, ia_object_list *, ia_root_kind);

/* Seeds one object as a root of its own, unless the walk has seen it, and
 * continues.  0, or -1 when memory is short. */
int ia_walk_seed_alone(ia_walk *, ia_roots *, PyObject *, ia_root_kind);

#endif /* IA_CROWDS_H */
