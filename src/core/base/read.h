/* Objects, read without running any code of theirs.
 *
 * What is returned is borrowed, and good while the GIL is held.
 */
#ifndef IA_READ_H
#define IA_READ_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "utf8.h"

/* A dict's value by name, or NULL (for no dict, too); no hashing, no
 * comparing through Python. */
PyObject *ia_dict_value(PyObject *dict, const char *name);
/* An instance's attribute that lies in the instance, or NULL. */
PyObject *ia_instance_attribute(PyObject *, const char *name);
/* A class attribute, or NULL. */
PyObject *ia_type_attribute(PyTypeObject *, const char *name);
/* The i-th type of the MRO, or NULL behind the last. */
PyTypeObject *ia_mro_item(PyTypeObject *, Py_ssize_t i);
/* The type along the MRO with this tp_name, or NULL. */
PyTypeObject *ia_base_named(PyTypeObject *, const char *name);
/* Is child what the getter `name` of a C type gives?  Only for getters that
 * are known to read a field. */
int ia_getter_gives(PyTypeObject *, PyObject *op, const char *name,
                    PyObject *child);

/* Position of child among what tp_traverse visits in parent, its type left
 * out; -1 when it is not there.  *before and *after, where not NULL, receive
 * its neighbours. */
Py_ssize_t ia_visit_position(traverseproc, PyObject *parent, PyObject *child,
                             PyObject **before, PyObject **after);

/* Is it an iterator of Python's own, or one of itertools'? */
int ia_is_plain_iterator(PyObject *);
/* Items in a list, tuple, dict, set, deque or functools.lru_cache; -1 for
 * anything else. */
Py_ssize_t ia_container_length(PyObject *);
/* Is it a list that list.sort() has emptied for as long as it takes? */
int ia_is_being_sorted(PyObject *);

/* UTF-8 of a str; "?" for anything else, and for what has lone surrogates.
 * Leaves no exception. */
const char *ia_utf8(PyObject *);
/* The same of a str with lone surrogates too, as names of files have them that
 * are no UTF-8: each in the three bytes that it would take, cut where the
 * buffer ends.  Is in the buffer or in the str. */
const char *ia_text(PyObject *, char *buf, size_t size);
/* Can it stand behind a dot? */
int ia_is_name(PyObject *);

#endif /* IA_READ_H */
