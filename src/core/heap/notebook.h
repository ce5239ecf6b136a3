/* IPython's namespace, where each cell's result stands under many names.
 *
 * IPython keeps what a cell shows in Out[N] and again as the variable _N, the
 * latest also as _, __ and ___, all of them once more in the namespace that
 * its shell hides; `%reset out` drops them together.  A walk that took each
 * for a holder would name none: cutting one frees nothing.
 */
#ifndef IA_NOTEBOOK_H
#define IA_NOTEBOOK_H

#include <Python.h>

typedef struct {
    PyObject *out;       /* Out; borrowed like the others, NULL: no IPython */
    PyObject *names;     /* globals of __main__ */
    PyObject *hidden;    /* the shell's user_ns_hidden, or NULL */
} ia_notebook;

/* Is this namespace IPython's? */
void ia_notebook_find(ia_notebook *, PyObject *namespace);

static inline int
ia_notebook_has(const ia_notebook *n, PyObject *op)
{
    return op == n->names || op == n->hidden;
}

/* Visits what one of its dicts holds but for second names of Out's values. */
int ia_notebook_traverse(const ia_notebook *, PyObject *dict, visitproc,
                         void *arg);

#endif /* IA_NOTEBOOK_H */
