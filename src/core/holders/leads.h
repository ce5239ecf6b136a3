/* Does one object lead to another, by what it and its parts show?  Short ways:
 * a wrapper leads to what it wraps, the newest link of a chain to the others.
 */
#ifndef IA_LEADS_H
#define IA_LEADS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* 1, or 0 where it does not, as far as was looked, or memory is short.  `by`
 * is not gone through: what has both of them in hand is no way. */
int ia_leads_to(PyObject *from, PyObject *wanted, uintptr_t by);

#endif /* IA_LEADS_H */
