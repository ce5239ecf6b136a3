/* Names for the children of torch's modules. */
#ifndef IA_MODULES_H
#define IA_MODULES_H

#include "text.h"

/* A child of an nn.Module, found in `dict` under `key`. */
ia_reading ia_name_module_child(PyObject *module, PyObject *dict,
                                PyObject *key, ia_edge_text *);

#endif /* IA_MODULES_H */
