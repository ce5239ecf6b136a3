/* Whether what a holder shows was made from what it showed. */

#include "../base/compat.h"
#include "chain.h"

#include "../base/kinds.h"
#include "../heap/walk.h"
#include "../steps/graphs.h"

/* A state may be a tuple of tensors in a dict of an instance. */
#define MOST_LEVELS 3

/* References of one holder that are looked at. */
#define MOST_REFERENCES 4096

typedef struct {
    ia_chain *chain;
    int level;
    int met;
} reader;

static int meet(PyObject *op, void *arg);

static void
read_inside(PyObject *op, reader *r)
{
    if (r->level == MOST_LEVELS || Py_TYPE(op)->tp_traverse == NULL ||
        !ia_is_gc(op))
        return;
    r->level++;
    Py_TYPE(op)->tp_traverse(op, meet, r);
    r->level--;
}

static int
meet(PyObject *op, void *arg)
{
    reader *r = arg;
    if (ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR) {
        void *node = ia_the_framework->grad_fn_of(op);
        if (node != NULL)
            r->chain->places[r->chain->count++] = (ia_graph_end){
                node, ia_the_framework->node_sequence(node)};
    } else if (PyTuple_CheckExact(op) || PyList_CheckExact(op) ||
               PyDict_CheckExact(op)) {
        read_inside(op, r);
    }
    return r->chain->count == IA_MOST_PLACES || ++r->met >= MOST_REFERENCES;
}

/* Older ones were made from nothing that is newer. */
static int
is_made_from(const ia_graph_end *now, const ia_graph_end *before)
{
    return now->node != before->node && now->sequence > before->sequence &&
           ia_graphs_lead_back(now->node, before->node, before->sequence,
                               IA_NODES_BACK) == 1;
}

static int
goes_on(const ia_chain *before, const ia_chain *now)
{
    int count = now->count < before->count ? now->count : before->count;
    for (int i = 0; i < count; i++)
        if (is_made_from(&now->places[i], &before->places[i]))
            return 1;
    return 0;
}

void
ia_chain_read(ia_chain *chain, PyObject *holder)
{
    static ia_chain before; /* under the GIL, and large */
    reader r = {.chain = chain};
    if (ia_the_framework == NULL)
        return;
    before = *chain;
    chain->count = 0;
    read_inside(holder, &r);
    chain->goes_on = goes_on(&before, chain);
}
