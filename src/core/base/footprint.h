/* How much memory a Python object takes, read off its layout: nothing of the
 * object's is called, no __sizeof__ either.
 */
#ifndef IA_FOOTPRINT_H
#define IA_FOOTPRINT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

typedef struct {
    uint64_t asked; /* bytes that were asked for */
    uint64_t bytes; /* what allocators make of them */
    uint64_t malloc; /* of these, what malloc has given */
} ia_footprint;

/* Who has what Python asks for; once before the first of many. */
void ia_footprint_begin(void);

/* The object and what it alone owns, references left out.  What a type of
 * another's C code allocates besides is not in it. */
void ia_footprint_of(PyObject *, ia_footprint *);

#endif /* IA_FOOTPRINT_H */
