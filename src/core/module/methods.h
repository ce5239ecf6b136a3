/* The functions of impactarbiter._core, in four tables. */
#ifndef IA_METHODS_H
#define IA_METHODS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define DOC(name, signature, text)                                           \
    PyDoc_STRVAR(name##_doc, #name signature "\n--\n\n" text)

#define FAST(f) (PyCFunction)(void (*)(void))f

extern PyMethodDef ia_watching_methods[];
extern PyMethodDef ia_accounts_methods[];
extern PyMethodDef ia_questions_methods[];
extern PyMethodDef ia_traces_methods[];

#endif /* IA_METHODS_H */
