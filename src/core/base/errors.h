/* What a function says when it fails.
 *
 * In base, ledger, steps, heap and holders, much of which runs without the
 * GIL, -1 (or NULL for C's memory) means that memory was short, and no
 * exception is set.  In names, answers, recorder and module -1 means that an
 * exception is set; so does NULL for a new reference, everywhere.  Who calls
 * from the upper rooms into the lower ones raises: ia_no_memory().
 *
 * A look-up that gives something borrowed or a position (base/read.h) says
 * with NULL or -1 that there is no such thing, and sets nothing.
 */
#ifndef IA_ERRORS_H
#define IA_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* -1, with a MemoryError set. */
static inline int
ia_no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

#endif /* IA_ERRORS_H */
