/* Names for the references of the autograd graph. */
#ifndef IA_GRAPH_H
#define IA_GRAPH_H

#include "text.h"

/* Before the name of an attribute that a script has in C++. */
#define IA_SCRIPT_PREFIX ".<script>"

ia_reading ia_name_graph_edge(uintptr_t parent, uintptr_t child,
                              ia_edge_text *);
/* 1 when the framework's object of that kind holds the child. */
int ia_name_in_framework(PyObject *parent, int kind, uintptr_t child,
                         ia_edge_text *);

#endif /* IA_GRAPH_H */
