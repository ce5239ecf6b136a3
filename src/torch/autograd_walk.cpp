/* The table of functions that the core walks torch's objects with.
 *
 * All are called with the GIL held.  What throws is counted and passed over,
 * so that nothing of torch's ends up in the core or in the user's program.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <typeinfo>

using torch::autograd::AutogradMeta;
using torch::autograd::Node;

namespace {

/* Borrowed from the module's state; torch keeps these types for ever. */
PyTypeObject *tensor_base;
PyTypeObject *storage_base;
PyTypeObject *function_base;
traverseproc node_wrapper_traverse;

ia_kind
kind_of_type(PyTypeObject *type)
{
    if (PyType_IsSubtype(type, tensor_base)) {
        return IA_KIND_TENSOR;
    }
    if (PyType_IsSubtype(type, storage_base)) {
        return IA_KIND_STORAGE;
    }
    if (PyType_IsSubtype(type, function_base)) {
        return IA_KIND_FUNCTION;
    }
    if (ia_script_is_one(type)) {
        return IA_KIND_SCRIPT;
    }
    /* One for all of them, be they generated, plugged in or the default. */
    return type->tp_traverse == node_wrapper_traverse ? IA_KIND_NODE
                                                      : IA_KIND_PLAIN;
}

AutogradMeta *
meta_of(PyObject *tensor)
{
    const auto &value = reinterpret_cast<THPVariable *>(tensor)->cdata;
    return value.defined() ? static_cast<AutogradMeta *>(
                                 value.unsafeGetTensorImpl()->autograd_meta())
                           : nullptr;
}

extern "C" int
walk_expand_object(PyObject *object, ia_kind kind, ia_sink *sink)
{
    return ia::guarded(0,
                       [&] { return ia::expand_object(object, kind, sink); });
}

extern "C" int
walk_expand_node(void *node, ia_sink *sink)
{
    return ia::guarded(
        0, [&] { return ia::expand_node(*static_cast<Node *>(node), sink); });
}

/* "CppNode<ns::f>" of torch::autograd's, without the namespace that it is in. */
extern "C" void
walk_describe_node(void *node, char *buf, size_t size)
{
    if (size == 0) {
        return;
    }
    buf[0] = '\0';
    ia::guarded(0, [&] {
        std::string name = static_cast<Node *>(node)->name();
        size_t scope = name.rfind("::", name.find('<'));
        size_t skip = scope == std::string::npos ? 0 : scope + 2;
        snprintf(buf, size, "%s", name.c_str() + skip);
        return 0;
    });
}

extern "C" void *
walk_grad_fn_of(PyObject *tensor)
{
    AutogradMeta *meta = meta_of(tensor);
    return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

/* For counting only: neither what a node saved nor a reference to it. */
extern "C" int
walk_next_nodes(void *node, ia_sink *sink)
{
    const auto &edges = static_cast<Node *>(node)->next_edges();
    int stop = 0;

    for (size_t i = 0; !stop && i < edges.size(); i++) {
        if (edges[i].function) {
            stop = sink->node(sink, edges[i].function.get(), IA_EDGE_NEXT,
                              nullptr, static_cast<Py_ssize_t>(i));
        }
    }
    return stop;
}

extern "C" uint64_t
walk_node_sequence(void *node)
{
    return static_cast<Node *>(node)->sequence_nr();
}

extern "C" uint64_t
walk_sequence_now(void)
{
    return at::sequence_number::peek();
}

/* The last name in a mangled "N5torch8autograd...14AddmmBackward0E".  Not
 * Node::name(): a Python function's takes the GIL, others allocate. */
std::string_view
class_name(const char *mangled)
{
    std::string_view last = "node";
    const char *at = *mangled == 'N' ? mangled + 1 : mangled;
    while (isdigit(static_cast<unsigned char>(*at))) {
        size_t length = 0;
        for (; isdigit(static_cast<unsigned char>(*at)); at++) {
            length = 10 * length + static_cast<size_t>(*at - '0');
        }
        last = std::string_view(at, length);
        at += length;
    }
    return last;
}

/* get_current_node() hands out a thread-local pointer, counted up and down;
 * the engine holds the node meanwhile. */
extern "C" int
walk_running_node(ia_node_mark *mark)
{
    auto node = torch::autograd::get_current_node();
    if (!node) {
        return 0;
    }
    const Node &running = *node;
    std::string_view name = class_name(typeid(running).name());
    *mark = {running.thread_id(), running.sequence_nr(), name.data(),
             name.size()};
    return 1;
}

extern "C" void
walk_next_node(ia_node_mark *mark)
{
    *mark = {at::RecordFunction::currentThreadId(),
             at::sequence_number::peek(), nullptr, 0};
}

extern "C" size_t
walk_node_bytes(void *node)
{
    return ia::node_bytes(*static_cast<Node *>(node));
}

extern "C" int
walk_begin(int patience)
{
    return ia::walk_opens(patience != 0);
}

extern "C" void
walk_end(void)
{
    ia::walk_closes();
}

const ia_framework framework = {
    .version = IA_API_VERSION,
    .kind_of_type = kind_of_type,
    .expand_object = walk_expand_object,
    .expand_node = walk_expand_node,
    .describe_node = walk_describe_node,
    .describe_tensor = ia_tensor_describe,
    .storage_of = ia_tensor_storage_of,
    .grad_fn_of = walk_grad_fn_of,
    .next_nodes = walk_next_nodes,
    .node_sequence = walk_node_sequence,
    .sequence_now = walk_sequence_now,
    .node_bytes = walk_node_bytes,
    .walk_begin = walk_begin,
    .walk_end = walk_end,
    .running_node = walk_running_node,
    .next_node = walk_next_node,
    .follow_storage = ia_tensor_follow,
    .sweep = ia_tensor_sweep,
    .optimizer_classes = ia_optimizer_classes,
    .adopt = nullptr,
};

} // namespace

int
ia_autograd_init(ia_torch_state *state)
{
    PyObject *functions = PyObject_GetAttrString(state->torch_c, "_functions");
    PyObject *type = nullptr;

    if (functions != nullptr) {
        type = PyObject_GetAttrString(functions, "AccumulateGrad");
        Py_DECREF(functions);
    }
    if (type == nullptr) {
        return -1;
    }
    node_wrapper_traverse = ((PyTypeObject *)type)->tp_traverse;
    Py_DECREF(type);
    tensor_base = (PyTypeObject *)state->tensor_base;
    storage_base = (PyTypeObject *)state->storage_base;
    function_base = (PyTypeObject *)state->function_base;
    return 0;
}

const ia_framework *
ia_autograd_framework(void)
{
    return &framework;
}

int
ia_autograd_in_graph_task(void)
{
    return torch::autograd::get_current_graph_task_id() != -1;
}
