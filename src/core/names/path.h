/* Names for the references on a reported path, as a programmer writes them.
 *
 * Only called for paths that are reported.  Reads through the objects' own
 * fields; runs no user code: no getattr, no repr, no hash, no len.
 *
 * text.c        literals for keys, names of types: what all the others use
 * containers.c  instances, mappings, sequences
 * modules.c     children of torch's modules
 * code.c        functions, frames, generators, exceptions, classes
 * lru_cache.c   functools.lru_cache
 * library.c     iterators, contexts, threads, arrays, ...
 * graph.c       the autograd graph
 * path.c        puts them together
 */
#ifndef IA_PATH_H
#define IA_PATH_H

#include "../heap/walk.h"

/* Edges of one path that are named; a longer one is elided in the middle. */
#define IA_PATH_HEAD 1200
#define IA_PATH_TAIL 200

/* The path that ends at `entry`, as a new reference to
 * (root_kind, root_name, user, [(kind, text, type, python), ...]);
 * NULL with an exception set on error.  `depths`, when not NULL, receives for
 * `inner` (an entry on the path, or IA_NO_ENTRY) the number of edges down to
 * it. */
PyObject *ia_path_build(const ia_walk *, uint32_t entry, uint32_t inner,
                        Py_ssize_t *depth);
/* The same, and in *objects, where that is not NULL, for each of the edges the
 * entry that it leads to, or IA_NO_ENTRY; freed by the caller with
 * PyMem_Free(), in any case. */
PyObject *ia_path_trace(const ia_walk *, uint32_t entry, uint32_t inner,
                        Py_ssize_t *depth, uint32_t **objects);

/* The entries of one garbage cycle, from its root object back to itself, as a
 * list of (kind, text, type, python); NULL on error.  It leads through nothing
 * of `held`, what something else leads to; NULL: there is none. */
PyObject *ia_cycle_build(uintptr_t root, int graph, const ia_bitmap *held);

#endif /* IA_PATH_H */
