/* The ledger's rows as a NumPy array. */
#ifndef IA_SNAPSHOT_H
#define IA_SNAPSHOT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int ia_snapshot_init(void); /* imports NumPy; -1 with an exception set */
PyObject *ia_snapshot_rows(void);

#endif /* IA_SNAPSHOT_H */
