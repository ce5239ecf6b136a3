/* The table of functions by which the core asks about arrays.
 *
 * Arrays have no graph that an object stands for: what a step keeps for its
 * backward lies inside of what was compiled.
 */
#include "hooks.h"

#include <string.h>

static ia_kind
kind_of_type(PyTypeObject *type)
{
    if (ia_is_tape(type))
        return IA_KIND_NODE;
    return ia_class_of(type) != NULL ? IA_KIND_TENSOR : IA_KIND_PLAIN;
}

static int
expand_object(PyObject *op, ia_kind kind, ia_sink *sink)
{
    const ia_storage *piece;
    PyObject *held;
    int stop = 0;
    if (kind == IA_KIND_NODE)
        return ia_tape_expand(op, sink);
    for (int i = 0; !stop && (piece = ia_claims_piece(op, i, &held)); i++) {
        stop = sink->storage(sink, piece, IA_EDGE_STORAGE, NULL, -1);
        if (!stop && held != NULL)
            stop = sink->object(sink, held, IA_EDGE_SHARD, NULL,
                                PyList_Check(held) ? -1 : i);
    }
    return stop;
}

static int
storage_of(PyObject *op, ia_storage *storage)
{
    PyObject *held;
    const ia_storage *piece = ia_claims_piece(op, 0, &held);
    if (piece == NULL)
        return 0;
    *storage = *piece;
    return 1;
}

static int
describe_tensor(PyObject *op, ia_tensor_info *info)
{
    const ia_array_class *c = ia_class_of(Py_TYPE(op));
    memset(info, 0, sizeof *info);
    info->dims = -1;
    info->is_leaf = 1;
    if (c == NULL)
        return 0;
    storage_of(op, &info->storage);
    c->describe(op, info);
    return 1;
}

static int
adopt(PyObject *op, ia_enter enter, void *arg)
{
    const ia_array_class *c = ia_class_of(Py_TYPE(op));
    if (c != NULL)
        ia_claims_add(c, op, enter, arg);
    return c != NULL;
}

static void
sweep(void)
{
    ia_claims_sweep(0);
}

/* -- no graph -------------------------------------------------------------- */

static void *
grad_fn_of(PyObject *op)
{
    (void)op;
    return NULL;
}

static int
next_nodes(void *node, ia_sink *sink)
{
    (void)node, (void)sink;
    return 0;
}

static uint64_t
node_sequence(void *node)
{
    (void)node;
    return UINT64_MAX;
}

static uint64_t
sequence_now(void)
{
    return 0;
}

static size_t
node_bytes(void *node)
{
    (void)node;
    return 0;
}

static int
running_node(ia_node_mark *mark)
{
    (void)mark;
    return 0;
}

static void
next_node(ia_node_mark *mark)
{
    *mark = (ia_node_mark){0};
}

/* The GIL is all that an array's object needs to stand still. */
static int
walk_begin(int patience)
{
    (void)patience;
    return 1;
}

static void
walk_end(void)
{
}

static int
follow_storage(PyObject *op)
{
    (void)op;
    return 0;
}

static const ia_framework framework = {
    .version = IA_API_VERSION,
    .kind_of_type = kind_of_type,
    .expand_object = expand_object,
    .describe_tensor = describe_tensor,
    .storage_of = storage_of,
    .grad_fn_of = grad_fn_of,
    .next_nodes = next_nodes,
    .node_sequence = node_sequence,
    .sequence_now = sequence_now,
    .node_bytes = node_bytes,
    .walk_begin = walk_begin,
    .walk_end = walk_end,
    .running_node = running_node,
    .next_node = next_node,
    .follow_storage = follow_storage,
    .sweep = sweep,
    .adopt = adopt,
};

const ia_framework *
ia_arrays_framework(void)
{
    return &framework;
}
