/* The frameworks that have registered, asked as if they were one. */

#include "frameworks.h"

static const ia_framework *all[IA_MOST_FRAMEWORKS];
static int count;

const ia_framework *ia_the_framework;

/* Whose nodes there are; the first where nobody has any. */
static const ia_framework *
with_graph(void)
{
    for (int i = 0; i < count; i++)
        if (all[i]->expand_node != NULL)
            return all[i];
    return all[0];
}

static const ia_framework *
of_object(PyObject *op)
{
    for (int i = 0; i < count; i++)
        if (all[i]->kind_of_type(Py_TYPE(op)) != IA_KIND_PLAIN)
            return all[i];
    return NULL;
}

/* -- by type --------------------------------------------------------------- */

static ia_kind
kind_of_type(PyTypeObject *type)
{
    ia_kind kind = IA_KIND_PLAIN;
    for (int i = 0; i < count && kind == IA_KIND_PLAIN; i++)
        kind = all[i]->kind_of_type(type);
    return kind;
}

static int
expand_object(PyObject *op, ia_kind kind, ia_sink *sink)
{
    const ia_framework *f = of_object(op);
    return f != NULL ? f->expand_object(op, kind, sink) : 0;
}

static int
describe_tensor(PyObject *op, ia_tensor_info *info)
{
    const ia_framework *f = of_object(op);
    return f != NULL && f->describe_tensor(op, info);
}

static int
storage_of(PyObject *op, ia_storage *storage)
{
    const ia_framework *f = of_object(op);
    return f != NULL && f->storage_of(op, storage);
}

static void *
grad_fn_of(PyObject *op)
{
    const ia_framework *f = of_object(op);
    return f != NULL ? f->grad_fn_of(op) : NULL;
}

static int
follow_storage(PyObject *op)
{
    const ia_framework *f = of_object(op);
    return f != NULL ? f->follow_storage(op) : 0;
}

static int
adopt(PyObject *op, ia_enter enter, void *arg)
{
    const ia_framework *f = of_object(op);
    return f != NULL && f->adopt != NULL && f->adopt(op, enter, arg);
}

/* -- of nodes -------------------------------------------------------------- */

static int
expand_node(void *node, ia_sink *sink)
{
    return with_graph()->expand_node(node, sink);
}

static void
describe_node(void *node, char *buf, size_t size)
{
    with_graph()->describe_node(node, buf, size);
}

static int
next_nodes(void *node, ia_sink *sink)
{
    return with_graph()->next_nodes(node, sink);
}

static uint64_t
node_sequence(void *node)
{
    return with_graph()->node_sequence(node);
}

static uint64_t
sequence_now(void)
{
    return with_graph()->sequence_now();
}

static size_t
node_bytes(void *node)
{
    return with_graph()->node_bytes(node);
}

static int
running_node(ia_node_mark *mark)
{
    return with_graph()->running_node(mark);
}

static void
next_node(ia_node_mark *mark)
{
    with_graph()->next_node(mark);
}

static int
optimizer_classes(void)
{
    const ia_framework *f = with_graph();
    return f->optimizer_classes != NULL ? f->optimizer_classes() : 0;
}

/* -- of all ---------------------------------------------------------------- */

static int
walk_begin(int patience)
{
    int still = 1;
    for (int i = 0; i < count; i++)
        still &= all[i]->walk_begin(patience);
    return still;
}

static void
walk_end(void)
{
    for (int i = 0; i < count; i++)
        all[i]->walk_end();
}

static void
sweep(void)
{
    for (int i = 0; i < count; i++)
        all[i]->sweep();
}

static const ia_framework several = {
    .version = IA_API_VERSION,
    .kind_of_type = kind_of_type,
    .expand_object = expand_object,
    .expand_node = expand_node,
    .describe_node = describe_node,
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
    .optimizer_classes = optimizer_classes,
    .adopt = adopt,
};

int
ia_frameworks_add(const ia_framework *framework)
{
    for (int i = 0; i < count; i++)
        if (all[i] == framework)
            return 0;
    if (count == IA_MOST_FRAMEWORKS)
        return -1;
    all[count++] = framework;
    ia_the_framework = count == 1 ? framework : &several;
    return 0;
}

/* -- sinks ----------------------------------------------------------------- */

int
ia_pass_object(ia_sink *sink, PyObject *op, ia_edge_kind kind,
               const char *name, Py_ssize_t index)
{
    (void)sink, (void)op, (void)kind, (void)name, (void)index;
    return 0;
}

int
ia_pass_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
             Py_ssize_t index)
{
    (void)sink, (void)node, (void)kind, (void)name, (void)index;
    return 0;
}

int
ia_pass_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
                const char *name, Py_ssize_t index)
{
    (void)sink, (void)storage, (void)kind, (void)name, (void)index;
    return 0;
}
