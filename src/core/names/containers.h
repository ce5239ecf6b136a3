/* Names for what instances, mappings and sequences hold. */
#ifndef IA_CONTAINERS_H
#define IA_CONTAINERS_H

#include "text.h"

/* 1 when it knows what parent -> child is called, with *next set. */
int ia_name_in_container(PyObject *parent, PyObject *child, ia_reading,
                         ia_edge_text *, ia_reading *next);
/* .name or, where that is no name, .__dict__['...'].  owner may be NULL. */
ia_reading ia_edge_attribute(PyObject *owner, PyObject *key, PyObject *value,
                             ia_edge_text *);

#endif /* IA_CONTAINERS_H */
