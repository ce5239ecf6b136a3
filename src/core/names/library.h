/* Names for what objects of the standard library and NumPy's arrays hold. */
#ifndef IA_LIBRARY_H
#define IA_LIBRARY_H

#include "text.h"

/* 1 when it knows what parent -> child is called, with *next set. */
int ia_name_in_library(PyObject *parent, PyObject *child, ia_reading,
                       ia_edge_text *, ia_reading *next);

#endif /* IA_LIBRARY_H */
