/* What a look keeps from the program. */
#ifndef IA_UNSEEN_H
#define IA_UNSEEN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* From here to the end this thread's tracer and profiler, and tools of
 * sys.monitoring, are told of nothing.  What ia_unseen_end() is to be given. */
int ia_unseen_begin(void);
void ia_unseen_end(int before);

/* No collection begins by itself from here on, with the GIL let go or not,
 * before there was an ia_collector_release() for each of these.  Whether the
 * collector is enabled is the program's alone; what it asks for by
 * gc.collect() is done, and ends the waiting. */
void ia_collector_hold(void);
void ia_collector_release(void);
/* In a child, which may have none of the threads that had held it. */
void ia_collector_after_fork(void);

/* Calls what is the program's, which is traced as if there were no look. */
PyObject *ia_call_theirs(PyObject *callable, PyObject *const *args,
                         Py_ssize_t count);

#endif /* IA_UNSEEN_H */
