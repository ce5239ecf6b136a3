/* Asking objects of a framework by its own C functions. */
#ifndef IA_ARRAYS_ASK_H
#define IA_ARRAYS_ASK_H

#include "hooks.h"

/* function(op), or NULL. */
PyObject *ia_ask(PyObject *function, PyObject *op);
/* Takes the value; 0 where it can't be told. */
size_t ia_ask_number(PyObject *value);
/* Takes the value in place of what was there; 0, or -1 where there is none:
 * then its exception stays. */
int ia_ask_keep(PyObject **to, PyObject *value);
/* Of a shape that is a tuple. */
void ia_ask_put_shape(PyObject *shape, ia_tensor_info *);

#endif /* IA_ARRAYS_ASK_H */
