/* Whether what a list got last carries memory that is accounted for. */

#include "../base/compat.h"
#include "carried.h"

#include "../base/kinds.h"

/* A record has a dict, that a tuple, and that the tensors. */
#define MOST_LEVELS 8
/* References of one item that are looked at: some microseconds. */
#define MOST_REFERENCES 2048

typedef struct {
    int level;
    int met;
    int found;
} search;

static int meet(PyObject *op, void *arg);

/* Of a function what it was made with: its globals are its module's. */
static int
look_into_function(PyObject *op, search *s)
{
    PyObject *own[] = {PyFunction_GET_CLOSURE(op),
                       PyFunction_GET_DEFAULTS(op),
                       PyFunction_GET_KW_DEFAULTS(op)};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] != NULL && meet(own[i], s))
            return 1;
    return 0;
}

static int
look_into(PyObject *op, search *s)
{
    if (PyType_Check(op) || PyModule_Check(op) || s->level == MOST_LEVELS)
        return 0;
    s->level++;
    int stop = 0;
    if (PyFunction_Check(op))
        stop = look_into_function(op, s);
    else if (Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op))
        stop = Py_TYPE(op)->tp_traverse(op, meet, s);
    s->level--;
    return stop;
}

static int
meet(PyObject *op, void *arg)
{
    search *s = arg;
    s->found = ++s->met > MOST_REFERENCES ||
               ia_kind_of(Py_TYPE(op)) != IA_KIND_PLAIN;
    return s->found || look_into(op, s);
}

Py_ssize_t
ia_carried(PyObject *container, Py_ssize_t count)
{
    if (!PyList_Check(container) || count > PyList_GET_SIZE(container))
        return count;
    Py_ssize_t carried = 0, length = PyList_GET_SIZE(container);
    ia_kinds_forget(); /* a type may lie where another did */
    for (Py_ssize_t i = length - count; i < length; i++) {
        search s = {0};
        meet(PyList_GET_ITEM(container, i), &s);
        carried += s.found;
    }
    return carried;
}
