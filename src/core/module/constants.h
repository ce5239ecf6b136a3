/* What C and Python share: defined here once, read there from the module. */
#ifndef IA_CONSTANTS_H
#define IA_CONSTANTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../base/columns.h"

/* Columns as a new list of (name, type), which numpy.dtype takes. */
PyObject *ia_columns_build(const ia_column *, size_t count);
#define IA_COLUMNS_BUILD(array)                                              \
    ia_columns_build(array, sizeof(array) / sizeof *(array))

/* 0, or -1 with an exception set. */
int ia_constants_add(PyObject *module);

#endif /* IA_CONSTANTS_H */
