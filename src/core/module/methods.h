/* The functions of impactarbiter._core. */
#ifndef IA_METHODS_H
#define IA_METHODS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef ia_methods[];

#endif /* IA_METHODS_H */
