/* A function's instructions, one after the other, as the compiler wrote them.
 */
#ifndef IA_INSTRUCTIONS_H
#define IA_INSTRUCTIONS_H

#include <Python.h>

typedef struct {
    Py_ssize_t at, next; /* offsets; next: of the one behind, caches left out */
    int op, arg;
} ia_instruction;

typedef struct {
    PyObject *bytes; /* owned; no object that the collector knows */
    const unsigned char *code;
    Py_ssize_t size;
} ia_instructions;

/* 0, or -1 when memory is short. */
int ia_instructions_open(ia_instructions *, PyCodeObject *);
void ia_instructions_close(ia_instructions *);
/* The one at the offset `from`; 0 where there is none. */
int ia_instructions_at(const ia_instructions *, Py_ssize_t from,
                       ia_instruction *);

#endif /* IA_INSTRUCTIONS_H */
