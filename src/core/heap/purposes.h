/* What storages are for: parameters, buffers, gradients, optimizer state. */
#ifndef IA_PURPOSES_H
#define IA_PURPOSES_H

#include "walk.h"

/* Classifies what an nn.Module or an optimizer holds directly. */
void ia_purpose_note(ia_storages *, PyObject *, int kind);
/* A dict's value by name, borrowed, or NULL; no hashing, no comparing through
 * Python. */
PyObject *ia_dict_value(PyObject *dict, const char *name);
/* An instance's attribute, borrowed, or NULL; runs no user code. */
PyObject *ia_instance_attribute(PyObject *, const char *name);

#endif /* IA_PURPOSES_H */
