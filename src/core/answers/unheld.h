/* Blocks of suspect lines that nothing in Python leads to at all: no object,
 * no graph of a tensor that Python knows, no garbage.  C or C++ holds them.
 */
#ifndef IA_UNHELD_H
#define IA_UNHELD_H

#include "../heap/walk.h"
#include "../holders/groups.h"

/* [(site, stack of the newest, device, count, bytes, generations, first,
 * last), ...] after a walk that went on to what no root reaches; NumPy's
 * blocks are left out: a pointer to one may lie anywhere.  Empty where the
 * graph was left out. */
PyObject *ia_unheld_build(const ia_walk *, const ia_wanted *);

#endif /* IA_UNHELD_H */
