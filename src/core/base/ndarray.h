/* What a NumPy array holds, and where. */
#ifndef IA_NDARRAY_H
#define IA_NDARRAY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Calls visit for each object that a NumPy array holds. */
int ia_ndarray_traverse(PyObject *, visitproc, void *);
/* Where an array holds child: *index receives its place in C order, or -1 for
 * the array's base.  Returns the number of dimensions. */
int ia_ndarray_place(PyObject *, PyObject *child, Py_ssize_t *index);

#endif /* IA_NDARRAY_H */
