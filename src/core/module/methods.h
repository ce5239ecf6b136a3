/* The functions of impactarbiter._core, and what they share. */
#ifndef IA_METHODS_H
#define IA_METHODS_H

#include "../base/core_api.h"

extern PyMethodDef ia_methods[];
extern const ia_core_api ia_api;

/* snapshot.c */
int ia_snapshot_init(void); /* imports NumPy; -1 with an exception set */
PyObject *ia_snapshot_rows(void);

#endif /* IA_METHODS_H */
