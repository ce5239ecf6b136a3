/* Finds the SavedVariables of an autograd node, of whatever class it is.
 *
 * Node::compiled_args() shows them all, but unpacks each, and throws where
 * the first one was freed or modified in place.  So it is asked once per
 * class: members lie at the same offsets in every node of one class, and
 * from then on they are read in place, with the names that the class's
 * Python type gives them.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <torch/csrc/dynamo/compiled_autograd.h>

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <vector>

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::dynamo::autograd::AutogradCompilerCall;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::NodeCall;
using torch::dynamo::autograd::TensorArg;
using torch::dynamo::autograd::TensorArgs;

using UnpackedMap = std::unordered_map<const SavedVariable *, TensorArg *>;
IA_EXPOSE(Unpacked, TensorArgs, UnpackedMap, _saved_variables);

namespace {

/* What a node showed: SavedVariables by address, and plain tensors, as
 * AutogradContext::saved_data of a Function written in C++ has them. */
struct Found {
    std::vector<const SavedVariable *> variables;
    std::vector<at::Tensor> tensors;
};

using SavedList = std::vector<SavedVariable>;

/* A node that throws costs 6 us.  Of a class that was only ever seen freed,
 * after so many throws only each kPatience-th node is asked: a walk over a
 * million of them stays short, and the first live one teaches the class. */
constexpr size_t kPatience = 8;
constexpr size_t kThrowsInARow = 256;

/* One member of a node's class: a SavedVariable, or a vector of them. */
struct Member {
    size_t offset;
    bool is_list;
    const char *name; /* borrowed from a static PyGetSetDef */
};

struct NodeClass {
    ia::NodeKind kind = ia::NodeKind::Cpp;
    bool learned = false;
    bool has_type = false;           /* it has a generated Python type */
    size_t throws = 0;               /* nodes that threw, or were not asked */
    std::vector<const char *> names; /* in the order of declaration */
    std::vector<Member> members;     /* once learned, likewise */
};

/* GIL; never destroyed, as torch may be gone before us. */
auto &
classes()
{
    static auto *table =
        new std::unordered_map<const std::type_info *, NodeClass>();
    return *table;
}

auto &
python_types()
{
    static auto *table = new std::unordered_map<std::string, PyTypeObject *>();
    return *table;
}

ia::NodeKind
kind_by_name(const char *type_name)
{
    /* PyNode's typeinfo is not exported, so names are compared. */
    if (strcmp(type_name, "N5torch8autograd6PyNodeE") == 0) {
        return ia::NodeKind::Python;
    }
    if (strcmp(type_name, "N5torch8autograd14AccumulateGradE") == 0) {
        return ia::NodeKind::AccumulateGrad;
    }
    if (strcmp(type_name, "N5torch8autograd10CopySlicesE") == 0) {
        return ia::NodeKind::CopySlices;
    }
    return ia::NodeKind::Cpp;
}

void
read_names(PyTypeObject *type, std::vector<const char *> &names)
{
    static const char prefix[] = "_raw_saved_";
    const size_t length = sizeof(prefix) - 1;

    for (PyGetSetDef *def = type->tp_getset; def && def->name; def++) {
        if (strncmp(def->name, prefix, length) == 0) {
            names.push_back(def->name + length);
        }
    }
}

NodeClass &
class_of(const Node &node)
{
    const std::type_info &type = typeid(node);
    auto [entry, is_new] = classes().try_emplace(&type);
    NodeClass &found = entry->second;
    if (is_new) {
        found.kind = kind_by_name(type.name());
        if (found.kind == ia::NodeKind::Cpp) {
            auto known = python_types().find(node.name());
            /* Foreach classes have lists, but no getters for them: one that
             * shows none may only have them empty. */
            if (known != python_types().end() &&
                known->first.rfind("Foreach", 0) != 0) {
                found.has_type = true;
                read_names(known->second, found.names);
            }
        }
    }
    return found;
}

void
collect(AutogradCompilerCall &call, Found &found)
{
    const auto &inputs = call.tensor_args.inputs;
    std::vector<bool> unpacked(inputs.size());

    for (const auto &[variable, tensor] :
         call.tensor_args.*reach(Unpacked())) {
        found.variables.push_back(variable);
        if (tensor->defined()) {
            unpacked[tensor->index()] = true;
        }
    }
    for (const auto &entry : call.sv_to_hooks) {
        found.variables.push_back(entry.first);
    }
    std::sort(found.variables.begin(), found.variables.end());
    for (size_t i = 0; i < inputs.size(); i++) {
        if (!unpacked[i]) {
            found.tensors.push_back(inputs[i]);
        }
    }
}

/* Asks the node; false where it threw, `found` then has what came before. */
bool
ask_node(Node &node, Found &found)
{
    AutogradCompilerCall call(
        torch::dynamo::autograd::SizeInput::DynType::STATIC);
    NodeCall node_call(0, node.getptr());
    bool complete = true;

    try {
        CompiledNodeArgs args(call, node_call);
        node.compiled_args(args);
    }
    catch (const std::bad_alloc &) {
        ia_failures_count();
        complete = false;
    }
    catch (...) {
        /* No failure: a node whose buffers a backward freed says it so. */
        PyErr_Clear();
        complete = false;
    }
    collect(call, found);
    return complete;
}

/* The vector inside the node whose elements begin at `first`, or 0. */
size_t
find_list(const char *node, size_t size,
          const std::vector<const SavedVariable *> &found, size_t first)
{
    for (size_t at = sizeof(Node); at + sizeof(SavedList) <= size;
         at += sizeof(void *)) {
        const void *words[2];
        memcpy(words, node + at, sizeof(words));
        if (words[0] != found[first]) {
            continue;
        }
        auto bytes = static_cast<const char *>(words[1]) -
                     static_cast<const char *>(words[0]);
        size_t count = static_cast<size_t>(bytes) / sizeof(SavedVariable);
        if (bytes > 0 &&
            static_cast<size_t>(bytes) % sizeof(SavedVariable) == 0 &&
            first + count <= found.size() &&
            found[first + count - 1] == found[first] + (count - 1)) {
            return at;
        }
    }
    return 0;
}

/* Explains every SavedVariable found as a member, or returns false. */
bool
explain(Node &node, const std::vector<const SavedVariable *> &found,
        std::vector<Member> &members)
{
    const char *start = reinterpret_cast<const char *>(&node);
    /* Such a node was made by new; one in a make_shared block was not, but
     * none of those classes saves anything. */
    const size_t size = found.empty() ? 0 : malloc_usable_size(&node);

    for (size_t i = 0; i < found.size();) {
        const char *address = reinterpret_cast<const char *>(found[i]);
        if (address > start && address < start + size) {
            members.push_back(
                {static_cast<size_t>(address - start), false, nullptr});
            i++;
            continue;
        }
        size_t offset = find_list(start, size, found, i);
        if (offset == 0) {
            return false;
        }
        auto *list = reinterpret_cast<const SavedList *>(start + offset);
        members.push_back({offset, true, nullptr});
        i += list->size();
    }
    return true;
}

/* A class is learned when each of its names has its member.  An empty list
 * shows none: such a class is asked again at its next node. */
void
learn(NodeClass &node_class, Node &node, const Found &found)
{
    std::vector<Member> members;

    if (!node_class.has_type || !found.tensors.empty() ||
        !explain(node, found.variables, members) ||
        members.size() != node_class.names.size()) {
        return;
    }
    std::sort(
        members.begin(), members.end(),
        [](const Member &a, const Member &b) { return a.offset < b.offset; });
    for (size_t i = 0; i < members.size(); i++) {
        members[i].name = node_class.names[i];
    }
    node_class.members = std::move(members);
    node_class.learned = true;
}

bool
worth_asking(NodeClass &node_class)
{
    if (node_class.throws < kThrowsInARow) {
        return true;
    }
    return node_class.throws++ % kPatience == 0;
}

int
visit_list(const SavedList &list, const char *name, Py_ssize_t *ordinal,
           ia::SavedVisitor &visitor)
{
    char text[96];

    for (size_t i = 0; i < list.size(); i++) {
        snprintf(text, sizeof(text), "%s[%zu]", name, i);
        int stop = visitor.visit(list[i], text, (*ordinal)++);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

int
visit_members(const NodeClass &node_class, Node &node,
              ia::SavedVisitor &visitor)
{
    const char *start = reinterpret_cast<const char *>(&node);
    Py_ssize_t ordinal = 0;

    for (const Member &member : node_class.members) {
        const void *at = start + member.offset;
        int stop = member.is_list
                       ? visit_list(*static_cast<const SavedList *>(at),
                                    member.name, &ordinal, visitor)
                       : visitor.visit(*static_cast<const SavedVariable *>(at),
                                       member.name, ordinal++);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

int
visit_found(const NodeClass &node_class, const Found &found,
            ia::SavedVisitor &visitor)
{
    const auto &variables = found.variables;
    bool named = node_class.names.size() == 1 && variables.size() == 1;
    Py_ssize_t ordinal = 0;
    int stop = 0;

    for (size_t i = 0; !stop && i < variables.size(); i++) {
        stop = visitor.visit(*variables[i],
                             named ? node_class.names[0] : nullptr, ordinal++);
    }
    for (size_t i = 0; !stop && i < found.tensors.size(); i++) {
        stop = visitor.visit_tensor(found.tensors[i], ordinal++);
    }
    return stop;
}

} // namespace

ia::NodeKind
ia::node_kind(const Node &node)
{
    return class_of(node).kind;
}

int
ia::visit_saved(Node &node, SavedVisitor &visitor)
{
    NodeClass &node_class = class_of(node);

    if (node_class.kind != NodeKind::Cpp) {
        return 0;
    }
    if (node_class.learned) {
        return visit_members(node_class, node, visitor);
    }
    if (!worth_asking(node_class)) {
        return 0;
    }
    Found found;
    if (ask_node(node, found)) {
        node_class.throws = 0;
        learn(node_class, node, found);
    }
    else {
        node_class.throws += node_class.throws < kThrowsInARow;
    }
    return node_class.learned ? visit_members(node_class, node, visitor)
                              : visit_found(node_class, found, visitor);
}

int
ia_saved_init(PyObject *torch_c)
{
    PyObject *module = PyObject_GetAttrString(torch_c, "_functions");
    PyObject *name;
    PyObject *type;
    Py_ssize_t at = 0;

    if (module == nullptr) {
        return -1;
    }
    PyObject *all = PyModule_GetDict(module);
    while (PyDict_Next(all, &at, &name, &type)) {
        const char *text = PyUnicode_AsUTF8(name);
        if (text == nullptr) {
            Py_DECREF(module);
            return -1;
        }
        if (PyType_Check(type)) {
            /* Static types of torch: they live as long as the process. */
            python_types()[text] = reinterpret_cast<PyTypeObject *>(type);
        }
    }
    Py_DECREF(module);
    return 0;
}
