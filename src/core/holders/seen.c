/* Reading a holder, beside what it was at the last visit. */

#include "../base/compat.h"
#include "seen.h"

#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../heap/walk.h"
#include "../steps/graphs.h"

#include <string.h>

/* Of a list of pairs that are looked at for what was the first one at the last
 * visit: under a millisecond. */
#define MOST_PAIRS 16384

/* -- tensors and arrays ----------------------------------------------------- */

/* The node behind a gradient, be that a Python object or none. */
typedef struct {
    ia_sink sink;
    void *node;
} gradient_sink;

static int
meet_gradient(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
              Py_ssize_t index)
{
    gradient_sink *g = (gradient_sink *)sink;
    (void)name, (void)index;
    if (kind == IA_EDGE_GRAD && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR)
        g->node = ia_the_framework->grad_fn_of(op);
    return 0;
}

static int
meet_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    gradient_sink *g = (gradient_sink *)sink;
    (void)index;
    if (kind == IA_EDGE_GRAD_FN && name != NULL && strcmp(name, "grad") == 0)
        g->node = node;
    return 0;
}

static int
pass_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    (void)sink, (void)storage, (void)kind, (void)name, (void)index;
    return 0;
}

/* What made a tensor; of one that nothing made, what made its gradient: that
 * hangs on it, and a parameter that no optimizer clears adds up. */
static void *
graph_of(PyObject *op)
{
    gradient_sink g = {{meet_gradient, meet_node, pass_storage, NULL}, NULL};
    void *node = ia_the_framework->grad_fn_of(op);
    if (node == NULL)
        ia_the_framework->expand_object(op, IA_KIND_TENSOR, &g.sink);
    return node != NULL ? node : g.node;
}

static void
read_tensor(ia_seen *seen, PyObject *op, ia_visit *v)
{
    void *node = v->graph = graph_of(op);
    ia_storage memory;
    if (ia_the_framework->storage_of(op, &memory))
        v->bytes = memory.bytes;
    if (node == NULL || node == seen->node)
        return;
    int back = seen->node == NULL
                   ? -1
                   : ia_graphs_lead_back(node, seen->node, seen->sequence,
                                         IA_NODES_BACK);
    if (back >= 0)
        v->recurs = back ? IA_LEADS_BACK : IA_MADE_ANEW;
    seen->node = node;
    seen->sequence = ia_the_framework->node_sequence(node);
}

/* One that holds objects, or has attributes, may grow by these. */
static void
read_array(PyObject *op, ia_visit *v)
{
    ia_tensor_info info;
    if (v->names >= 0 || ia_ndarray_has_objects(op))
        return;
    ia_ndarray_describe(op, &info);
    v->bytes = info.storage.bytes;
}

/* Where they have a dict: from some 30 on, or once somebody asked for it; the
 * holder may be that dict. */
static Py_ssize_t
count_names(PyObject *op)
{
    PyObject *dict = PyDict_Check(op) ? op : ia_get_instance_dict(op);
    return dict != NULL && PyDict_Check(dict) ? PyDict_GET_SIZE(dict) : -1;
}

/* -- holders ---------------------------------------------------------------- */

static void
read_container(ia_seen *seen, PyObject *op, ia_visit *v)
{
    v->length = seen->length;
    v->linked = seen->linked;
    if (seen->linked) {
        /* No item of the one before is one of its. */
        seen->eldest = ia_eldest_since(op, (ia_item){0, 0});
    } else if (ia_is_being_sorted(op)) {
        v->eldest = ia_item_mark(seen->eldest);
    } else {
        seen->length = v->length = ia_container_length(op);
        seen->eldest = ia_eldest_since(op, seen->eldest);
        seen->newest = ia_newest_item(op);
        v->eldest = ia_item_mark(seen->eldest);
        v->first = PyDict_Check(op) ? v->eldest
                   : v->length > 0  ? ia_first_item(op)
                                    : 0;
    }
}

void
ia_read_holder(ia_seen *seen, PyObject *op, int is_container, int still,
               ia_visit *v)
{
    v->value = (uintptr_t)op;
    if (is_container) {
        read_container(seen, op, v);
    } else if (still && ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR) {
        read_tensor(seen, op, v);
    } else {
        v->names = count_names(op);
        if (ia_kind_of(Py_TYPE(op)) == IA_KIND_NDARRAY)
            read_array(op, v);
    }
}

int
ia_has_its_eldest(const ia_seen *seen, PyObject *op)
{
    return seen->eldest.item == 0 ||
           ia_same_item(ia_eldest_since(op, seen->eldest), seen->eldest);
}

int
ia_stands_in(const ia_seen *seen, PyObject *op)
{
    if (ia_container_length(op) < seen->length)
        return seen->newest != 0 && PyList_Check(op) &&
               ia_has_item(op, seen->newest);
    return seen->eldest.item != 0 && ia_has_its_eldest(seen, op);
}

/* The pair at one index of a pair, or NULL. */
static PyObject *
pair_at(PyObject *pair, Py_ssize_t i)
{
    PyObject *item = PySequence_Fast_GET_ITEM(pair, i);
    return item != NULL && Py_TYPE(item) == Py_TYPE(pair) &&
                   Py_SIZE(item) == Py_SIZE(pair)
               ? item
               : NULL;
}

/* By its first item, too: where it went, another pair may lie. */
static int
was_it(const ia_seen *seen, PyObject *pair, uintptr_t before)
{
    return (uintptr_t)pair == before && seen->eldest.item != 0 &&
           (uintptr_t)PySequence_Fast_GET_ITEM(pair, 0) == seen->eldest.item;
}

int
ia_is_in_front(const ia_seen *seen, PyObject *op, uintptr_t before)
{
    if ((!PyTuple_CheckExact(op) && !PyList_CheckExact(op)) ||
        Py_SIZE(op) != seen->length)
        return 0;
    int looked = 0;
    for (Py_ssize_t i = 0; i < Py_SIZE(op) && looked < MOST_PAIRS; i++) {
        PyObject *pair = op;
        for (; pair != NULL && looked < MOST_PAIRS; looked++) {
            pair = pair_at(pair, i);
            if (pair != NULL && was_it(seen, pair, before))
                return 1;
        }
    }
    return 0;
}
