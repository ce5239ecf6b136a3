/* Whether what stands at an address is still the object that was noted there.
 *
 * For lists, dicts and whatever else takes no weak reference.  What is made
 * later stands at the end of the collector's list of young objects, and is on
 * it when the next collection begins; an object that is older than a
 * collection never is: all that came in its place is seen, but for what came
 * before a collection that was not told.  Nothing at a noted address is read,
 * and no reference is held.  Under the GIL.
 */
#ifndef IA_SAME_H
#define IA_SAME_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* 0, or -1 when memory is short. */
int ia_same_note(PyObject *);
/* Was an object noted there, and no other one seen in its place? */
int ia_same_stands(uintptr_t address);
/* A collection begins; whole: of everything. */
void ia_same_collecting(int whole);

#endif /* IA_SAME_H */
