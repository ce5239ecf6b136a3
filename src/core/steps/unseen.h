/* What a look keeps from the program. */
#ifndef IA_UNSEEN_H
#define IA_UNSEEN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* From here to the end this thread's tracer and profiler, and tools of
 * sys.monitoring, are told of nothing.  What ia_unseen_end() is to be given. */
int ia_unseen_begin(void);
void ia_unseen_end(int before);

/* Calls what is the program's, which is traced as if there were no look. */
PyObject *ia_call_theirs(PyObject *callable, PyObject *const *args,
                         Py_ssize_t count);

#endif /* IA_UNSEEN_H */
