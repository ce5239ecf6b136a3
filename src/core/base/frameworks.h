/* The frameworks that have registered, asked as if they were one.
 *
 * With one, ia_the_framework is that one itself: nothing is dispatched.  With
 * more it is a table of functions that ask them in turn: by the type of what
 * is asked about, or the one that has a graph.
 */
#ifndef IA_FRAMEWORKS_H
#define IA_FRAMEWORKS_H

#include "core_api.h"

#define IA_MOST_FRAMEWORKS 4

/* NULL where none has registered.  Process-wide: births on any thread ask it,
 * and a kind means the same in every walk. */
extern const ia_framework *ia_the_framework;
/* Once for each, however often.  0, or -1 where there are too many. */
int ia_frameworks_add(const ia_framework *);

/* Of a sink that does not ask for these: they go on. */
int ia_pass_object(ia_sink *, PyObject *, ia_edge_kind, const char *name,
                   Py_ssize_t index);
int ia_pass_node(ia_sink *, void *node, ia_edge_kind, const char *name,
                 Py_ssize_t index);
int ia_pass_storage(ia_sink *, const ia_storage *, ia_edge_kind,
                    const char *name, Py_ssize_t index);

#endif /* IA_FRAMEWORKS_H */
