/* Pickles of plain data, read by a reader that knows nothing else.
 *
 * None, bool, int, float, str, bytes, list, tuple and dicts with str or int
 * keys, in protocols 2 to 5: no opcode that imports, calls or asks for an
 * object exists here, so nothing in a file can.  What is built is at most some
 * 64 times the file, as an opcode of a byte makes no more than an empty dict.
 */
#ifndef IA_PLAIN_PICKLE_H
#define IA_PLAIN_PICKLE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

/* A new reference, or NULL with ValueError (what, and at which byte) or
 * MemoryError set. */
PyObject *ia_plain_pickle_read(const void *bytes, size_t length);

#endif /* IA_PLAIN_PICKLE_H */
