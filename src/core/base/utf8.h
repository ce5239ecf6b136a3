/* UTF-8 of a str, without the API that makes it: a lock may be held, and not
 * the GIL. */
#ifndef IA_UTF8_H
#define IA_UTF8_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Bytes for a file's name. */
#define IA_FILE_NAME 4096

/* The text in the buffer, cut where that ends, a lone surrogate in the three
 * bytes that it would take; "?" for anything but a str. */
const char *ia_text_copy(PyObject *, char *buf, size_t size);

#endif /* IA_UTF8_H */
