/* Where retaining paths start; roots.c finds them. */
#ifndef IA_ROOT_H
#define IA_ROOT_H

#include "../base/ptrmap.h"
#include "notebook.h"

typedef enum {
    IA_ROOT_MODULE,      /* object is the module's dict */
    IA_ROOT_STATE,       /* object is a module: its C state */
    IA_ROOT_FRAME,       /* frame */
    IA_ROOT_THREAD,      /* thread-local data, handled exceptions */
    IA_ROOT_INTERPRETER, /* interned C-level holders */
    IA_ROOT_OUTSIDE,     /* held by C code or a running call's temporaries */
    IA_ROOT_NATIVE,      /* a tensor that only C++ holds */
    IA_ROOT_CYCLE,       /* on a garbage cycle */
    IA_ROOT_CALLER,      /* our caller alone, or a call that is running */
} ia_root_kind;

/* Bytes of a root's name; a longer one is cut. */
#define IA_ROOT_NAME 120

typedef struct {
    ia_root_kind kind;
    uintptr_t ref;
    char name[IA_ROOT_NAME];
    int user; /* the user's own code, or a library's */
    int turn; /* a call that a loop makes */
    int late; /* so, or one that was seen to come and go: named last */
    int threads; /* the module that lists the threads */
    int forever; /* a cycle that the collector can't free: C++ is part of it */
} ia_root;

/* Objects of one type that no proper root reaches, taken as one root: what
 * grows by one garbage cycle a step grows in one place. */
typedef struct ia_crowd {
    PyObject **members; /* owned array of borrowed references */
    uint32_t count;
    struct ia_crowd *next;
} ia_crowd;

typedef struct {
    ia_root *items; /* owned */
    uint32_t count, capacity;
    ia_crowd *crowds; /* owned */
    ia_ptrmap turns;  /* frames of calls that a loop makes */
    int near;         /* walks leave out what libraries' modules lead to */
    ia_notebook notebook;
} ia_roots;

#endif /* IA_ROOT_H */
