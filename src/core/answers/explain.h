/* Who holds these objects: one walk, every reference into each of them. */
#ifndef IA_EXPLAIN_H
#define IA_EXPLAIN_H

#include "../heap/walk.h"

/* Instances of a class that are told apart. */
#define IA_MAX_INSTANCES 4096

/* _core.explain(objects, paths, ways) -> list of dicts, one per object.
 * `objects` is the tuple in which the caller handed them in.  With `ways`
 * also what the objects on the paths retain. */
PyObject *ia_explain(PyObject *objects, Py_ssize_t paths, int ways);

/* _core.instances(type, most) -> (count, [path, ...]) of live instances. */
PyObject *ia_instances(PyTypeObject *, Py_ssize_t most);

#endif /* IA_EXPLAIN_H */
