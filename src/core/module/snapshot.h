/* The ledger's rows and the run's curves as NumPy arrays. */
#ifndef IA_SNAPSHOT_H
#define IA_SNAPSHOT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Both import NumPy where nobody has. */
PyObject *ia_snapshot_rows(void);
/* (points, lines, bytes by line, nodes) as _core.pyi has them. */
PyObject *ia_snapshot_curves(void);

#endif /* IA_SNAPSHOT_H */
