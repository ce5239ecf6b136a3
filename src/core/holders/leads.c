/* A search from one object for another. */

#include "../base/compat.h"
#include "leads.h"

#include "../base/kinds.h"
#include "../base/ptrmap.h"

#include <stdlib.h>

/* Objects that are looked at: below a millisecond. */
#define MOST_OBJECTS 8192
/* References of one of them: a namespace of a module has more, and is no
 * link of a chain. */
#define MOST_SHOWN 64

typedef struct {
    ia_ptrmap met;
    PyObject **queue; /* owned; borrowed references */
    uint32_t count;
    uint32_t shown; /* by the one that is looked at */
    PyObject *wanted;
    int found;
} search;

/* What may lead on: no class, no module, and nothing that another thread may
 * be changing. */
static int
is_of_interest(PyObject *op)
{
    return ia_can_traverse(op) && Py_TYPE(op)->tp_traverse != NULL &&
           !PyType_Check(op) && !PyModule_Check(op) &&
           (ia_kind_of(Py_TYPE(op)) == IA_KIND_PLAIN ||
            ia_kind_of(Py_TYPE(op)) == IA_KIND_MODULE) &&
           !(PyDict_CheckExact(op) && PyDict_GET_SIZE(op) > MOST_SHOWN);
}

static int
meet(PyObject *op, void *arg)
{
    search *s = arg;
    s->found |= op == s->wanted;
    if (s->found || ++s->shown > MOST_SHOWN || s->count == MOST_OBJECTS)
        return 1;
    if (is_of_interest(op) &&
        ia_ptrmap_add(&s->met, (uintptr_t)op, s->count) == 1)
        s->queue[s->count++] = op;
    return 0;
}

int
ia_leads_to(PyObject *from, PyObject *wanted, uintptr_t by)
{
    search s = {.wanted = wanted};
    s.queue = malloc(MOST_OBJECTS * sizeof *s.queue);
    if (s.queue != NULL && is_of_interest(from) &&
        ia_ptrmap_add(&s.met, by, 0) == 1)
        s.queue[s.count++] = from;
    for (uint32_t i = 0; i < s.count && !s.found; i++) {
        s.shown = 0;
        Py_TYPE(s.queue[i])->tp_traverse(s.queue[i], meet, &s);
    }
    ia_ptrmap_free(&s.met);
    free(s.queue);
    return s.found;
}
