/* What a reference of each kind of object is called. */
#ifndef IA_EDGE_KINDS_H
#define IA_EDGE_KINDS_H

#include "frames.h"
#include "heapwalk.h"

typedef struct {
    const char *kind;
    int python; /* the text, put behind the parent's, is Python */
    char text[280];
} ia_edge_text;

/* How the next object on a path is to be read: a dict may be a mapping, or
 * the attributes of what came before it. */
typedef enum {
    IA_READ_PLAIN = 0,
    IA_READ_ATTRIBUTES, /* a __dict__: its keys are attribute names */
    IA_READ_CHILDREN,   /* _modules, _parameters or _buffers of a Module */
    IA_READ_CONTENTS,   /* a cell that has been named already */
    IA_READ_CLOSURE,    /* closure tuple of the function `owner` */
} ia_how;

typedef struct {
    ia_how how;
    PyObject *owner; /* borrowed, or NULL */
} ia_reading;

/* Each names parent -> child and returns how the child is to be read.  An
 * empty text means that the step shows nothing of its own. */
ia_reading ia_name_object_edge(PyObject *parent, uintptr_t child, ia_reading,
                               ia_edge_text *);
ia_reading ia_name_graph_edge(uintptr_t parent, uintptr_t child,
                              ia_edge_text *);
/* behind = 1: a generator's or frame object's local, not a running call's. */
ia_reading ia_name_local(ia_frame *, PyObject *child, int behind,
                         ia_edge_text *);

/* Puts a name; returns the plain reading. */
ia_reading ia_edge_set(ia_edge_text *, const char *kind, int python,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Position of child among what tp_traverse of `type` visits in parent, its
 * type left out; -1 when it is not there.  *before receives the object that
 * was visited just before it. */
Py_ssize_t ia_visit_position(traverseproc, PyObject *parent, PyObject *child,
                             PyObject **before);

#endif /* IA_EDGE_KINDS_H */
