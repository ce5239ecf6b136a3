/* An exception of the program's that came while code of ours ran, which is to
 * look as though we had not been there. */
#ifndef IA_TAKEN_EXCEPTION_H
#define IA_TAKEN_EXCEPTION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The exception that is set, which is no more; its traceback begins behind the
 * last frame of ours.  A new reference, never NULL. */
PyObject *ia_take_exception(void);

#endif /* IA_TAKEN_EXCEPTION_H */
