/* What a reference of each kind of object is called.
 *
 * containers.c  instances, mappings, sequences; puts the others together
 * code.c        functions, frames, generators, exceptions, classes
 * graph.c       the autograd graph
 * library.c     functools, iterators, contexts, threads, arrays, ...
 */
#ifndef IA_CONTAINERS_H
#define IA_CONTAINERS_H

#include "../ledger/frames.h"
#include "../heap/walk.h"

typedef struct {
    const char *kind;
    int python; /* the text, put behind the parent's, is Python */
    char text[280];
} ia_edge_text;

/* How the next object on a path is to be read: a dict may be a mapping, or
 * the attributes of what came before it. */
typedef enum {
    IA_READ_PLAIN = 0,
    IA_READ_ATTRIBUTES, /* a __dict__, of `owner` where that is known */
    IA_READ_CHILDREN,   /* _modules, _parameters or _buffers of a Module */
    IA_READ_CONTENTS,   /* named already: what it wraps needs no name */
    IA_READ_CLOSURE,    /* closure tuple of the function `owner` */
    IA_READ_PAIRS,      /* tuple of name, value, name, value, ... */
    IA_READ_ITERABLES,  /* tuple of what zip() and its like go through */
    IA_READ_ENTRIES,    /* dict of the lru_cache `owner` */
    IA_READ_ARGUMENTS,  /* a key of the lru_cache `owner` */
    IA_READ_THREADS,    /* dict of a threading.local: one dict a thread */
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

/* The parts.  Each returns 1 when it knows the parent, with *next set. */
int ia_name_in_code(PyObject *parent, PyObject *child, ia_reading,
                    ia_edge_text *, ia_reading *next);
int ia_name_in_library(PyObject *parent, PyObject *child, ia_reading,
                       ia_edge_text *, ia_reading *next);
int ia_name_in_framework(PyObject *parent, int kind, uintptr_t child,
                         ia_edge_text *);
/* A child of an nn.Module, found in `dict` under `key`. */
ia_reading ia_name_module_child(PyObject *module, PyObject *dict,
                                PyObject *key, ia_edge_text *);

/* Puts a name; returns the plain reading.  A text that had to be cut is no
 * Python. */
ia_reading ia_edge_set(ia_edge_text *, const char *kind, int python,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A step that shows nothing: the next one carries the name. */
ia_reading ia_edge_pass(ia_edge_text *, ia_how, PyObject *owner);
/* .name or, where that is no name, .__dict__['...'].  owner may be NULL. */
ia_reading ia_edge_attribute(PyObject *owner, PyObject *key, PyObject *value,
                             ia_edge_text *);

/* UTF-8 of a str; "?" for anything else.  Leaves no exception. */
const char *ia_utf8(PyObject *);
/* Can it stand behind a dot? */
int ia_is_name(PyObject *);
/* A class attribute, borrowed, or NULL; hashes and compares nothing. */
PyObject *ia_type_attribute(PyTypeObject *, const char *name);
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
/* `name` out of what functools.lru_cache was called with: "maxsize" or
 * "typed".  Borrowed, or NULL. */
PyObject *ia_lru_parameter(PyObject *, const char *name);

#endif /* IA_CONTAINERS_H */
