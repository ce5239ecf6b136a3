/* Which variables of libraries lead to blocks that Python does not. */
#ifndef IA_NATIVE_H
#define IA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* [(library, symbol, blocks that it leads to, blocks asked), ...] of a line's
 * blocks: of the newest, and of some from the oldest on.  Or the object that
 * wraps what leads there, and None in the symbol's place.  OSError where
 * nothing was found and not all of the process's memory was read. */
PyObject *ia_native_of_site(uint64_t site);
/* The same of one object's memory. */
PyObject *ia_native_of_object(PyObject *);

/* [(library, function or None), ...]: the native calls in which the most of a
 * line's blocks that are alive were made, the innermost first, of those whose
 * stack was taken since a walk met nothing that leads to the line's. */
PyObject *ia_native_calls_of_site(uint64_t site);

#endif /* IA_NATIVE_H */
