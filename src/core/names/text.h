/* One step of a path: its text, and how the object behind it is to be read. */
#ifndef IA_TEXT_H
#define IA_TEXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../heap/refs.h"

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

/* Puts a name; returns the plain reading.  A text that had to be cut is no
 * Python. */
ia_reading ia_edge_set(ia_edge_text *, const char *kind, int python,
                       const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A step that shows nothing: the next one carries the name. */
ia_reading ia_edge_pass(ia_edge_text *, ia_how, PyObject *owner);

/* A literal for a key of a built-in type, else "<key of type T>"; 1 when the
 * text is Python. */
int ia_key_text(PyObject *key, char *buf, size_t size);

/* The type of what a ref points to, as a str; new reference, or NULL. */
PyObject *ia_type_build(uintptr_t ref);

#endif /* IA_TEXT_H */
