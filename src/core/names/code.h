/* Names for what functions, frames, generators, exceptions and classes
 * hold. */
#ifndef IA_CODE_H
#define IA_CODE_H

#include "../ledger/frames.h"
#include "text.h"

/* 1 when it knows what parent -> child is called, with *next set. */
int ia_name_in_code(PyObject *parent, PyObject *child, ia_reading,
                    ia_edge_text *, ia_reading *next);
/* behind = 1: a generator's or frame object's local, not a running call's. */
ia_reading ia_name_local(ia_frame *, PyObject *child, int behind,
                         ia_edge_text *);

#endif /* IA_CODE_H */
