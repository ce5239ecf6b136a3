/* Names for the references on a reported path, as a programmer writes them.
 *
 * Only called for paths that are reported.  Reads through the objects' own
 * fields; runs no user code: no getattr, no repr, no hash, no len.
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

/* Short name of what a ref points to: "list", "AddmmBackward0". */
void ia_ref_type_name(uintptr_t ref, char *buf, size_t size);

/* The same as a str; new reference, or NULL. */
PyObject *ia_type_build(uintptr_t ref);

/* A literal for a key of a built-in type, else "<key of type T>"; 1 when the
 * text is Python. */
int ia_key_text(PyObject *key, char *buf, size_t size);

#endif /* IA_PATH_H */
