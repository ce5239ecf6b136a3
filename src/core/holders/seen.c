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

/* The node behind a tensor's gradient, be that a Python object or none, and
 * the memory of a tensor's parts: a sparse one has none of its own. */
typedef struct {
    ia_sink sink;
    void *node;
    size_t bytes;
} tensor_sink;

static int
is_part(ia_edge_kind kind, const char *name)
{
    return kind == IA_EDGE_STORAGE && name != NULL;
}

static int
meet_object(ia_sink *sink, PyObject *op, ia_edge_kind kind, const char *name,
            Py_ssize_t index)
{
    tensor_sink *t = (tensor_sink *)sink;
    ia_storage memory;
    (void)index;
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR)
        return 0;
    if (kind == IA_EDGE_GRAD)
        t->node = ia_the_framework->grad_fn_of(op);
    else if (is_part(kind, name) &&
             ia_the_framework->storage_of(op, &memory))
        t->bytes += memory.bytes;
    return 0;
}

static int
meet_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    tensor_sink *t = (tensor_sink *)sink;
    (void)index;
    if (kind == IA_EDGE_GRAD_FN && name != NULL && strcmp(name, "grad") == 0)
        t->node = node;
    return 0;
}

static int
meet_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
             const char *name, Py_ssize_t index)
{
    tensor_sink *t = (tensor_sink *)sink;
    (void)index;
    if (is_part(kind, name))
        t->bytes += storage->bytes;
    return 0;
}

/* One that has parts is the one before, larger, where it was written to and
 * lies where that lay: a sparse gradient that nobody clears. */
static void
read_parts(ia_seen *seen, PyObject *op, ia_visit *v)
{
    ia_tensor_info info;
    if (!ia_the_framework->describe_tensor(op, &info))
        return;
    if (seen->parted == (uintptr_t)op && info.writes > seen->writes &&
        v->bytes > seen->bytes)
        v->recurs = IA_LEADS_BACK;
    seen->parted = (uintptr_t)op;
    seen->writes = info.writes;
    seen->bytes = v->bytes;
}

/* Its graph is what made it; of one that nothing made, what made its gradient:
 * that hangs on it, and a parameter that no optimizer clears adds up. */
static void
read_tensor(ia_seen *seen, PyObject *op, ia_visit *v)
{
    tensor_sink t = {{meet_object, meet_node, meet_storage, NULL}, NULL, 0};
    void *node = ia_the_framework->grad_fn_of(op);
    ia_storage memory;
    if (node == NULL)
        ia_the_framework->expand_object(op, IA_KIND_TENSOR, &t.sink);
    v->graph = node = node != NULL ? node : t.node;
    if (ia_the_framework->storage_of(op, &memory)) {
        v->bytes = memory.bytes;
    } else if (t.bytes > 0) {
        v->bytes = t.bytes;
        read_parts(seen, op, v);
    }
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
