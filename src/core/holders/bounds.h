/* The most that a holder can have by its type. */
#ifndef IA_BOUNDS_H
#define IA_BOUNDS_H

#include "../heap/walk.h"

/* The most items that a holder can have by its type, or None; a new
 * reference, or NULL with an exception set. */
PyObject *ia_bound_of(const ia_walk *, uint32_t entry);
/* The most that its items can have by theirs, all together: a list of
 * deque(maxlen=10); -1 where one of them has no bound, or it has no items. */
long long ia_bound_within(const ia_walk *, uint32_t entry);
/* Items that itertools.tee() keeps together for the iterators behind: another
 * block takes its place where one of these goes on, and what grows is the last
 * of them. */
int ia_is_tee_block(PyObject *);

#endif /* IA_BOUNDS_H */
