/* Whether what a list got last carries memory that is accounted for.
 *
 * Several statements may grow one list, as each call of a logger's does, and
 * few of them by a tensor.
 */
#ifndef IA_CARRIED_H
#define IA_CARRIED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Of a list's last `count` items so many as lead to tensors, arrays or graphs,
 * or may: of other containers, and of what leads to too much, nobody knows.
 * Runs no code of theirs; the GIL is held. */
Py_ssize_t ia_carried(PyObject *container, Py_ssize_t count);

#endif /* IA_CARRIED_H */
