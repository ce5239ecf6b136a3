/* The autograd graph as edges: what tensors, nodes and custom Functions hold
 * on the C++ side, where tp_traverse shows nothing.
 *
 * Nothing here makes a Python object, runs a hook, or recurses.  A tensor
 * that has a Python object is handed out as that object; one that has not
 * ("bare") is looked through at once: its storage, node, gradient and base.
 * Called with the GIL held.  While another thread may be changing what is read
 * here, storages are all that is told.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/python_anomaly_mode.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_saved_variable_hooks.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <typeinfo>
#include <unordered_map>
#include <vector>

using torch::autograd::AccumulateGrad;
using torch::autograd::AnomalyMetadata;
using torch::autograd::AutogradMeta;
using torch::autograd::CopySlices;
using torch::autograd::DifferentiableViewMeta;
using torch::autograd::ForwardGrad;
using torch::autograd::FunctionPreHook;
using torch::autograd::Node;
using torch::autograd::PyAnomalyMetadata;
using torch::autograd::PyFunctionPostHook;
using torch::autograd::PyFunctionPreHook;
using torch::autograd::PyFunctionTensorPostAccGradHooks;
using torch::autograd::PyFunctionTensorPreHook;
using torch::autograd::PySavedVariableHooks;
using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;
using torch::autograd::THPCppFunction;

/* Reading data_ where it lies beats unpack(): that makes a temporary tensor,
 * throws on freed and modified ones, and would run a user's unpack hook. */
IA_EXPOSE(SavedData, SavedVariable, at::Tensor, data_);
IA_EXPOSE(SavedOriginal, SavedVariable, bool, saved_original_);
IA_EXPOSE(SavedOutput, SavedVariable, bool, is_output_);
IA_EXPOSE(SavedTangent, SavedVariable, std::shared_ptr<ForwardGrad>, fw_grad_);
IA_EXPOSE(SavedGradFn, SavedVariable, ia::NodePtr, grad_fn_);
IA_EXPOSE(SavedAccumulator, SavedVariable, ia::NodePtr, grad_accumulator_);
IA_EXPOSE(SavedHooks, SavedVariable, std::unique_ptr<SavedVariableHooks>,
          hooks_);
IA_EXPOSE(HooksPack, PySavedVariableHooks,
          ia::HookObject<PySavedVariableHooks>, pack_hook_);
IA_EXPOSE(HooksUnpack, PySavedVariableHooks,
          ia::HookObject<PySavedVariableHooks>, unpack_hook_);
IA_EXPOSE(HooksData, PySavedVariableHooks,
          ia::HookObject<PySavedVariableHooks>, data_);
using Tangents = std::unordered_map<uint64_t, at::Tensor>;
IA_EXPOSE(TangentsByLevel, ForwardGrad, Tangents, content_);
IA_EXPOSE(NodeMetadata, Node, std::unique_ptr<AnomalyMetadata>,
          anomaly_metadata_);

namespace {

/* Bare tensors looked through behind one edge: a gradient's base's tangent.
 * More means a cycle of them. */
constexpr size_t kMaxBareTensors = 64;

/* How many walks are under way, and whether the world stands still for them.
 * GIL. */
size_t walks;
bool still;

struct Label {
    ia_edge_kind kind;
    const char *name;
    Py_ssize_t index;
};

struct BareTensor {
    const c10::TensorImpl *impl;
    Label label;
};

template <typename T>
bool
is_exactly(const T &object, const char *type_name)
{
    return strcmp(typeid(object).name(), type_name) == 0;
}

/* Hands edges to the sink.  Each method returns nonzero to stop. */
class Emitter {
  public:
    explicit Emitter(ia_sink *sink) : sink_(sink)
    {
    }

    /* A destructor that runs Python code leaves behind it, until it is done,
     * references to what it destroys: those to a count of 0. */
    int object(PyObject *object, const Label &label)
    {
        return object == nullptr || Py_REFCNT(object) <= 0
                   ? 0
                   : sink_->object(sink_, object, label.kind, label.name,
                                   label.index);
    }

    /* Nothing is held: not even a count may be raised of what is dying. */
    int node(const ia::NodePtr &node, const Label &label)
    {
        return node && node.use_count() > 0 ? this->node(*node, label) : 0;
    }

    int node(Node &node, const Label &label)
    {
        return sink_->node(sink_, &node, label.kind, label.name, label.index);
    }

    int storage(const c10::StorageImpl *impl, const Label &label)
    {
        ia_storage storage;
        return ia::storage_info(impl, &storage)
                   ? sink_->storage(sink_, &storage, label.kind, label.name,
                                    label.index)
                   : 0;
    }

    int tensor(const at::Tensor &tensor, const Label &label)
    {
        bare_.clear();
        seen_ = 0;
        int stop = tensor_or_queue(tensor, label);
        return stop ? stop : drain();
    }

    /* What the tensor behind a Python object holds. */
    int inside(const at::Tensor &tensor)
    {
        bare_.clear();
        seen_ = 0;
        int stop = contents(*tensor.unsafeGetTensorImpl(),
                            {IA_EDGE_STORAGE, nullptr, -1});
        return stop ? stop : drain();
    }

    int saved(const SavedVariable &saved, const char *name,
              Py_ssize_t ordinal);
    bool asks_who_made() const
    {
        return sink_->made != nullptr;
    }

    void made(Node &node, const c10::TensorImpl &output);
    int hooks_of(Node &node);

  private:
    int tensor_or_queue(const at::Tensor &tensor, const Label &label)
    {
        if (!tensor.defined() || tensor.use_count() == 0) {
            return 0;
        }
        c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
        PyObject *wrapper = impl->pyobj_slot()->load_pyobj();
        if (wrapper != nullptr) {
            return object(wrapper, label);
        }
        if (++seen_ <= kMaxBareTensors) {
            bare_.push_back({impl, label});
        }
        return 0;
    }

    int drain()
    {
        while (!bare_.empty()) {
            BareTensor next = bare_.back();
            bare_.pop_back();
            int stop = contents(*next.impl, next.label);
            if (stop) {
                return stop;
            }
        }
        return 0;
    }

    int contents(const c10::TensorImpl &impl, const Label &label);
    int parts(const c10::TensorImpl &impl);
    int autograd_parts(const AutogradMeta &meta, const Label &over);
    int view_bases(const AutogradMeta &meta, const Label &base);
    int tensor_hooks(const AutogradMeta &meta);
    int tangent(const std::shared_ptr<ForwardGrad> &tangents);
    int pre_hook(const FunctionPreHook *hook, const char *name = nullptr);

    ia_sink *sink_;
    std::vector<BareTensor> bare_;
    size_t seen_ = 0;
};

/* What a tensor that is looked through holds is named with what led to it:
 * .grad.grad_fn, .saved[x].grad_fn, .saved[x]._base. */
Label
label_behind(const Label &over, ia_edge_kind kind)
{
    switch (over.kind) {
    case IA_EDGE_GRAD:
        return {kind, over.name ? over.name : "grad", -1};
    case IA_EDGE_SAVED:
    case IA_EDGE_ATTRIBUTE:
        return {kind, over.name, over.index};
    case IA_EDGE_BASE:
        return {kind, over.index < 0 ? "_base" : over.name, over.index};
    default:
        return {kind, nullptr, -1};
    }
}

int
Emitter::contents(const c10::TensorImpl &impl, const Label &label)
{
    const auto *memory = impl.unsafe_storage().unsafeGetStorageImpl();
    int stop = storage(memory, label);
    if (stop || !ia::stands_still()) {
        return stop;
    }
    /* Python's, if it was ever asked for, lives as long as the storage. */
    stop = memory == nullptr
               ? 0
               : object(memory->pyobj_slot()->load_pyobj(),
                        {IA_EDGE_STORAGE_OBJECT, nullptr, -1});
    if (!stop) {
        stop = parts(impl);
    }
    auto *meta = static_cast<AutogradMeta *>(impl.autograd_meta());
    if (asks_who_made() && meta != nullptr && !meta->is_view_ &&
        meta->grad_fn_ && meta->grad_fn_.use_count() > 0) {
        made(*meta->grad_fn_, impl);
    }
    return stop || meta == nullptr
               ? stop
               : autograd_parts(*meta, label);
}

/* A part that Python has seen comes as an object. */
int
Emitter::parts(const c10::TensorImpl &impl)
{
    ia::Part parts[ia::kMostParts];
    size_t count = ia::parts_of(impl, parts);
    int stop = 0;

    for (size_t i = 0; !stop && i < count; i++) {
        stop = tensor_or_queue(*parts[i].tensor,
                               {IA_EDGE_STORAGE, parts[i].name, -1});
    }
    return stop;
}

/* The memory of what an operation gave back and nobody has written to since
 * was born in that operation's forward.  A view's is its base's; a custom
 * Function may give back what was there before. */
void
Emitter::made(Node &node, const c10::TensorImpl &output)
{
    ia_storage storage;
    if (ia::node_kind(node) == ia::NodeKind::Generated &&
        output.version_counter().enabled() &&
        output.version_counter().current_version() == 0 &&
        ia::storage_info(output.unsafe_storage().unsafeGetStorageImpl(),
                         &storage)) {
        sink_->made(sink_, &node, &storage);
    }
}

/* The gradient accumulator is left out: a tensor knows it only weakly. */
int
Emitter::autograd_parts(const AutogradMeta &meta, const Label &over)
{
    int stop = node(meta.grad_fn_, label_behind(over, IA_EDGE_GRAD_FN));
    if (!stop) {
        stop = tensor_or_queue(meta.grad_, {IA_EDGE_GRAD, nullptr, -1});
    }
    if (!stop && meta.is_view_) {
        stop = view_bases(meta, label_behind(over, IA_EDGE_BASE));
    }
    if (!stop) {
        stop = tensor_hooks(meta);
    }
    return stop ? stop : tangent(meta.fw_grad_);
}

int
Emitter::view_bases(const AutogradMeta &meta, const Label &base)
{
    auto &view = static_cast<const DifferentiableViewMeta &>(meta);
    int stop = 0;

    if (view.has_bw_view()) {
        stop = tensor_or_queue(view.get_backward_view().base_, base);
    }
    if (!stop && view.has_fw_view() && !view.shared_view_info()) {
        stop = tensor_or_queue(view.get_forward_view().base_, base);
    }
    return stop;
}

int
Emitter::tensor_hooks(const AutogradMeta &meta)
{
    for (const auto &hook : meta.hooks_) {
        int stop = pre_hook(hook.get(), "_backward_hooks");
        if (stop) {
            return stop;
        }
    }
    const auto *after = meta.post_acc_grad_hooks_.get();
    if (after != nullptr &&
        is_exactly(*after,
                   "N5torch8autograd32PyFunctionTensorPostAccGradHooksE")) {
        return object(
            static_cast<const PyFunctionTensorPostAccGradHooks *>(after)->dict,
            {IA_EDGE_HOOK, "_post_accumulate_grad_hooks", -1});
    }
    return 0;
}

/* Level 0 is the only one that torch's Python interface can open.  Not by
 * value(): who waits for the GIL inside set_value() holds the lock. */
int
Emitter::tangent(const std::shared_ptr<ForwardGrad> &tangents)
{
    if (tangents == nullptr) {
        return 0;
    }
    const Tangents &all = (*tangents).*reach(TangentsByLevel());
    auto found = all.find(0);
    return found == all.end()
               ? 0
               : tensor_or_queue(found->second,
                                 {IA_EDGE_GRAD, "tangent", -1});
}

int
Emitter::pre_hook(const FunctionPreHook *hook, const char *name)
{
    const Label label{IA_EDGE_HOOK, name, -1};

    if (hook == nullptr) {
        return 0;
    }
    if (is_exactly(*hook, "N5torch8autograd23PyFunctionTensorPreHookE")) {
        return object(static_cast<const PyFunctionTensorPreHook *>(hook)->dict,
                      label);
    }
    if (is_exactly(*hook, "N5torch8autograd17PyFunctionPreHookE")) {
        return object(static_cast<const PyFunctionPreHook *>(hook)->dict,
                      label);
    }
    return 0;
}

int
Emitter::saved(const SavedVariable &saved, const char *name,
               Py_ssize_t ordinal)
{
    const SavedVariableHooks *hooks = (saved.*reach(SavedHooks())).get();
    int stop =
        tensor(saved.*reach(SavedData()), {IA_EDGE_SAVED, name, ordinal});

    if (!stop && hooks != nullptr &&
        is_exactly(*hooks, "N5torch8autograd20PySavedVariableHooksE")) {
        auto &ours = *static_cast<const PySavedVariableHooks *>(hooks);
        stop = object(ia::borrowed(ours.*reach(HooksData())),
                      {IA_EDGE_PACKED, name, ordinal});
        if (!stop) {
            stop = object(ia::borrowed(ours.*reach(HooksUnpack())),
                          {IA_EDGE_HOOK, name, ordinal});
        }
        if (!stop) {
            stop = object(ia::borrowed(ours.*reach(HooksPack())),
                          {IA_EDGE_HOOK, name, ordinal});
        }
    }
    if (!stop) {
        stop = node(saved.*reach(SavedGradFn()),
                    {IA_EDGE_GRAD_FN, name, ordinal});
    }
    if (!stop) {
        stop = node(saved.*reach(SavedAccumulator()),
                    {IA_EDGE_NEXT, name, ordinal});
    }
    if (!stop && saved.*reach(SavedTangent())) {
        stop = tangent(saved.*reach(SavedTangent()));
        stop = stop ? stop : drain();
    }
    return stop;
}

/* Not tensor_pre_hooks() of an AccumulateGrad: they are its tensor's, and
 * reading them throws, out of a noexcept method, once that is released. */
int
Emitter::hooks_of(Node &node)
{
    const Label label{IA_EDGE_HOOK, nullptr, -1};
    int stop = 0;

    for (size_t i = 0; !stop && i < node.pre_hooks().size(); i++) {
        stop = pre_hook(node.pre_hooks()[i].get());
    }
    if (ia::node_kind(node) != ia::NodeKind::AccumulateGrad) {
        auto &hooks = node.tensor_pre_hooks();
        for (size_t i = 0; !stop && i < hooks.size(); i++) {
            stop = pre_hook(hooks[i].get());
        }
    }
    for (size_t i = 0; !stop && i < node.post_hooks().size(); i++) {
        const auto *hook = node.post_hooks()[i].get();
        if (hook != nullptr &&
            is_exactly(*hook, "N5torch8autograd18PyFunctionPostHookE")) {
            stop = object(static_cast<const PyFunctionPostHook *>(hook)->dict,
                          label);
        }
    }
    auto *metadata = (node.*reach(NodeMetadata())).get();
    if (!stop && metadata != nullptr &&
        is_exactly(*metadata, "N5torch8autograd17PyAnomalyMetadataE")) {
        stop = object(static_cast<PyAnomalyMetadata *>(metadata)->dict(),
                      {IA_EDGE_HOOK, "metadata", -1});
    }
    return stop;
}

struct SavedEmitter final : ia::SavedVisitor {
    SavedEmitter(Emitter &to, Node &of) : emitter(to), node(of)
    {
    }

    int visit(const SavedVariable &saved, const char *name,
              Py_ssize_t ordinal) override
    {
        if (emitter.asks_who_made()) {
            tell_of_result(saved);
        }
        return emitter.saved(saved, name, ordinal);
    }

    int visit_tensor(const at::Tensor &tensor, Py_ssize_t ordinal) override
    {
        return emitter.tensor(tensor, {IA_EDGE_SAVED, nullptr, ordinal});
    }

    /* What it gave back itself lies here without what it is part of. */
    void tell_of_result(const SavedVariable &saved)
    {
        const at::Tensor &data = saved.*reach(SavedData());
        if (saved.*reach(SavedOutput()) && !(saved.*reach(SavedOriginal())) &&
            data.defined() && data.use_count() > 0) {
            emitter.made(node, *data.unsafeGetTensorImpl());
        }
    }

    Emitter &emitter;
    Node &node;
};

int
special_parts(Node &node, ia::NodeKind kind, Emitter &emitter)
{
    switch (kind) {
    case ia::NodeKind::AccumulateGrad:
        return emitter.tensor(static_cast<AccumulateGrad &>(node).variable,
                              {IA_EDGE_VARIABLE, nullptr, -1});
    case ia::NodeKind::CopySlices:
        return emitter.node(static_cast<CopySlices &>(node).fn,
                            {IA_EDGE_NEXT, "fn", -1});
    case ia::NodeKind::Python:
        return emitter.object(
            ia::python_function_of(
                static_cast<torch::autograd::PyNode *>(&node)),
            {IA_EDGE_FUNCTION, nullptr, -1});
    case ia::NodeKind::Generated:
    case ia::NodeKind::Cpp:
    case ia::NodeKind::Script:
    case ia::NodeKind::Other:
        break;
    }
    return 0;
}

int
expand_function(THPFunction *function, Emitter &emitter)
{
    Py_ssize_t ordinal = 0;

    for (const SavedVariable &saved : function->saved_variables) {
        int stop = emitter.saved(saved, nullptr, ordinal++);
        if (stop) {
            return stop;
        }
    }
    Node *node = ia::node_of_function(function);
    return node == nullptr
               ? 0
               : emitter.node(*node, {IA_EDGE_NODE, nullptr, -1});
}

class ScriptEmitter final : public ia::ScriptVisitor {
  public:
    explicit ScriptEmitter(Emitter &emitter) : emitter_(emitter)
    {
    }

    int visit(const at::Tensor &tensor, const char *name) override
    {
        return emitter_.tensor(tensor, {IA_EDGE_ATTRIBUTE, name, -1});
    }

  private:
    Emitter &emitter_;
};

} // namespace

int
ia::expand_node(Node &node, ia_sink *sink)
{
    Emitter emitter(sink);
    SavedEmitter saved(emitter, node);
    int stop = special_parts(node, ia::node_kind(node), emitter);
    if (!stop) {
        stop = ia::visit_saved(node, saved);
    }
    if (!stop) {
        stop = emitter.hooks_of(node);
    }
    const auto &edges = node.next_edges();
    for (size_t i = 0; !stop && i < edges.size(); i++) {
        stop = emitter.node(edges[i].function, {IA_EDGE_NEXT, nullptr,
                                                static_cast<Py_ssize_t>(i)});
    }
    return stop;
}

int
ia::expand_object(PyObject *object, ia_kind kind, ia_sink *sink)
{
    Emitter emitter(sink);

    if (!stands_still() && kind != IA_KIND_TENSOR && kind != IA_KIND_STORAGE) {
        return 0;
    }
    switch (kind) {
    case IA_KIND_TENSOR: {
        const auto &tensor = reinterpret_cast<THPVariable *>(object)->cdata;
        return tensor.defined() ? emitter.inside(tensor) : 0;
    }
    case IA_KIND_STORAGE:
        return emitter.storage(reinterpret_cast<THPStorage *>(object)
                                   ->cdata.unsafeGetStorageImpl(),
                               {IA_EDGE_STORAGE, nullptr, -1});
    case IA_KIND_NODE:
        return emitter.node(reinterpret_cast<THPCppFunction *>(object)->cdata,
                            {IA_EDGE_NODE, nullptr, -1});
    case IA_KIND_FUNCTION:
        return expand_function(reinterpret_cast<THPFunction *>(object),
                               emitter);
    case IA_KIND_SCRIPT: {
        ScriptEmitter script(emitter);
        return visit_script(object, script);
    }
    case IA_KIND_PLAIN:
        break;
    }
    return 0;
}

bool
ia::walk_opens(bool patience)
{
    ia_loose_install();
    bool now = ia_world_stands_still(patience);
    still = now && (walks == 0 || still);
    walks++;
    return still;
}

bool
ia::stands_still()
{
    return walks != 0 ? still : ia_nobody_is_loose();
}

void
ia::walk_closes()
{
    walks--;
    ia_loose_uninstall();
}
