/* Where an autograd node keeps its SavedVariables, of whatever class it is,
 * and how much memory the node itself takes.
 *
 * torch ships the declarations of the classes that it generates; the build
 * lists their members in saved_layout.inc.  So they are read in place, with
 * their names: nothing is asked of the node, which would unpack what it saved
 * and with that run a user's __torch_dispatch__.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <vector>

using torch::autograd::AccumulateGrad;
using torch::autograd::AutogradContext;
using torch::autograd::CopySlices;
using torch::autograd::CppNode;
using torch::autograd::Node;
using torch::autograd::PyNode;
using torch::autograd::SavedVariable;

using ia::SavedList;
IA_EXPOSE(ContextVariables, AutogradContext, SavedList, saved_variables_);

namespace {

/* Lists in lists of a C++ Function's saved_data. */
constexpr int kMaxNesting = 8;

/* One member of a node's class: a SavedVariable, or a vector of them. */
struct Member {
    size_t offset;
    bool is_list;
    const char *name;
};

/* A vector of a node's class, and what its memory takes. */
struct Vector {
    size_t offset;
    size_t (*bytes)(const void *);
};

struct Generated {
    const char *name;
    size_t size;
    size_t count;   /* of members, which lie behind one another in kMembers */
    size_t vectors; /* likewise in kVectors */
};

template <typename T>
size_t
vector_bytes(const std::vector<T> &vector)
{
    return ia::block_of(vector.capacity() * sizeof(T));
}

template <typename T>
size_t
vector_bytes(const std::vector<std::vector<T>> &vectors)
{
    size_t bytes = ia::block_of(vectors.capacity() * sizeof(vectors[0]));

    for (const auto &vector : vectors) {
        bytes += vector_bytes(vector);
    }
    return bytes;
}

template <typename T>
size_t
vector_bytes(const c10::OptionalArray<T> &array)
{
    return array.list ? vector_bytes(*array.list) : 0;
}

size_t
vector_bytes(const torch::autograd::generated::TypeAndSize &argument)
{
    return vector_bytes(argument.sym_sizes);
}

template <typename T>
size_t
bytes_at(const void *at)
{
    return vector_bytes(*static_cast<const T *>(at));
}

/* The layout is that of the compiler torch was built by; offsetof of a class
 * with virtual functions is conditionally supported, and is so here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define IA_CLASS(CLASS, COUNT, VECTORS)
#define IA_ONE(CLASS, NAME)
#define IA_LIST(CLASS, NAME)
#define IA_VECTOR(CLASS, NAME)

const Member kMembers[] = {
#undef IA_ONE
#undef IA_LIST
#define IA_ONE(CLASS, NAME)                                                  \
    {offsetof(torch::autograd::generated::CLASS, NAME##_), false, #NAME},
#define IA_LIST(CLASS, NAME)                                                 \
    {offsetof(torch::autograd::generated::CLASS, NAME##_), true, #NAME},
#include "saved_layout.inc"
#undef IA_ONE
#undef IA_LIST
#define IA_ONE(CLASS, NAME)
#define IA_LIST(CLASS, NAME)
};

const Vector kVectors[] = {
#undef IA_VECTOR
#define IA_VECTOR(CLASS, NAME)                                               \
    {offsetof(torch::autograd::generated::CLASS, NAME),                      \
     &bytes_at<decltype(torch::autograd::generated::CLASS::NAME)>},
#include "saved_layout.inc"
#undef IA_VECTOR
#define IA_VECTOR(CLASS, NAME)
};

const Generated kGenerated[] = {
#undef IA_CLASS
#define IA_CLASS(CLASS, COUNT, VECTORS)                                      \
    {#CLASS, sizeof(torch::autograd::generated::CLASS), COUNT, VECTORS},
#include "saved_layout.inc"
};

#pragma GCC diagnostic pop

/* Stands for any Function written in C++: no member of its node's class
 * depends on which. */
struct AnyFunction {
    [[maybe_unused]] static constexpr bool is_traceable = false;
};

struct NodeClass {
    ia::NodeKind kind = ia::NodeKind::Other;
    size_t size = 0; /* 0 where the class is declared nowhere */
    const Member *members = nullptr;
    size_t count = 0;
    const Vector *vectors = nullptr;
    size_t vector_count = 0;
};

using ByName = std::unordered_map<std::string_view, NodeClass>;

ByName
generated_by_name()
{
    ByName table;
    const Member *members = kMembers;
    const Vector *vectors = kVectors;

    for (const Generated &entry : kGenerated) {
        table[entry.name] = {ia::NodeKind::Generated,
                             entry.size,
                             members,
                             entry.count,
                             vectors,
                             entry.vectors};
        members += entry.count;
        vectors += entry.vectors;
    }
    return table;
}

/* "AddBackward0" of "N5torch8autograd9generated12AddBackward0E". */
std::string_view
generated_name(std::string_view type_name)
{
    constexpr std::string_view scope = "N5torch8autograd9generated";
    size_t at = scope.size(), length = 0;

    if (type_name.substr(0, at) != scope) {
        return {};
    }
    while (at < type_name.size() && isdigit(type_name[at])) {
        length = 10 * length + static_cast<size_t>(type_name[at++] - '0');
    }
    return type_name.substr(at, length);
}

/* Names are compared: not every class's typeinfo is exported. */
NodeClass
find_class(std::string_view type_name)
{
    static const auto *generated = new ByName(generated_by_name());
    constexpr std::string_view cpp = "N5torch8autograd7CppNodeI";

    if (type_name == "N5torch8autograd6PyNodeE") {
        return {ia::NodeKind::Python, sizeof(PyNode)};
    }
    if (type_name == "N5torch8autograd14AccumulateGradE") {
        return {ia::NodeKind::AccumulateGrad, sizeof(AccumulateGrad)};
    }
    if (type_name == "N5torch8autograd10CopySlicesE") {
        return {ia::NodeKind::CopySlices, sizeof(CopySlices)};
    }
    if (type_name.substr(0, cpp.size()) == cpp) {
        return {ia::NodeKind::Cpp, sizeof(CppNode<AnyFunction>)};
    }
    if (ia::is_script_node(type_name)) {
        return {ia::NodeKind::Script, ia::script_node_size};
    }
    auto found = generated->find(generated_name(type_name));
    return found != generated->end() ? found->second : NodeClass();
}

/* GIL; never destroyed, as torch may be gone before us. */
const NodeClass &
class_of(const Node &node)
{
    static auto *known =
        new std::unordered_map<const std::type_info *, NodeClass>();
    const std::type_info &type = typeid(node);
    auto found = known->find(&type);

    if (found == known->end()) {
        found = known->emplace(&type, find_class(type.name())).first;
    }
    return found->second;
}

int
visit_list(const SavedList &list, const char *name, Py_ssize_t *ordinal,
           ia::SavedVisitor &visitor)
{
    char text[96];

    for (size_t i = 0; i < list.size(); i++) {
        if (name != nullptr) {
            snprintf(text, sizeof(text), "%s[%zu]", name, i);
        }
        int stop = visitor.visit(list[i], name ? text : nullptr,
                                 (*ordinal)++);
        if (stop) {
            return stop;
        }
    }
    return 0;
}

int
visit_members(const NodeClass &node_class, const Node &node,
              ia::SavedVisitor &visitor)
{
    const char *start = reinterpret_cast<const char *>(&node);
    Py_ssize_t ordinal = 0;

    for (size_t i = 0; i < node_class.count; i++) {
        const Member &member = node_class.members[i];
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
visit_value(const c10::IValue &value, int nesting, Py_ssize_t *ordinal,
            ia::SavedVisitor &visitor)
{
    int stop = 0;

    if (value.isTensor()) {
        return visitor.visit_tensor(value.toTensor(), (*ordinal)++);
    }
    if (nesting == kMaxNesting) {
        return 0;
    }
    if (value.isList()) {
        for (const c10::IValue &item : value.toListRef()) {
            stop = stop ? stop
                        : visit_value(item, nesting + 1, ordinal, visitor);
        }
    }
    else if (value.isTuple()) {
        for (const c10::IValue &item : value.toTupleRef().elements()) {
            stop = stop ? stop
                        : visit_value(item, nesting + 1, ordinal, visitor);
        }
    }
    return stop;
}

int
visit_context(const AutogradContext &context, ia::SavedVisitor &visitor)
{
    Py_ssize_t ordinal = 0;
    int stop = visit_list(context.*reach(ContextVariables()), nullptr,
                          &ordinal, visitor);

    for (const auto &entry : context.saved_data) {
        stop = stop ? stop : visit_value(entry.second, 0, &ordinal, visitor);
    }
    return stop;
}

int
visit_captures(const Node &node, ia::SavedVisitor &visitor)
{
    const SavedList *tensors;
    const std::vector<c10::IValue> *values;
    Py_ssize_t ordinal = 0;

    if (!ia::script_captures(node, &tensors, &values)) {
        return 0;
    }
    int stop = visit_list(*tensors, nullptr, &ordinal, visitor);
    for (const c10::IValue &value : *values) {
        stop = stop ? stop : visit_value(value, 0, &ordinal, visitor);
    }
    return stop;
}

} // namespace

ia::NodeKind
ia::node_kind(const Node &node)
{
    return class_of(node).kind;
}

size_t
ia::node_bytes(const Node &node)
{
    const NodeClass &node_class = class_of(node);
    const char *start = reinterpret_cast<const char *>(&node);

    if (node_class.size == 0) {
        return 0;
    }
    size_t bytes = ia::block_of(node_class.size) + vector_bytes(node.next_edges());
    for (size_t i = 0; i < node_class.vector_count; i++) {
        const Vector &vector = node_class.vectors[i];
        bytes += vector.bytes(start + vector.offset);
    }
    return bytes;
}

int
ia::visit_saved(const Node &node, SavedVisitor &visitor)
{
    const NodeClass &node_class = class_of(node);

    if (node_class.kind == NodeKind::Cpp) {
        return visit_context(
            static_cast<const CppNode<AnyFunction> &>(node).ctx_, visitor);
    }
    if (node_class.kind == NodeKind::Script) {
        return visit_captures(node, visitor);
    }
    return visit_members(node_class, node, visitor);
}
