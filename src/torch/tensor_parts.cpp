/* Tensors that another one has besides its own memory, or in place of it: a
 * sparse one's indices and values, a nested one's sizes, the scales of one that
 * is quantized by channel, and the value that torch.func, vmap or
 * functionalization wraps.  A wrapper outlives the transform that made it, and
 * has the graph of each level on its own value.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include <cstring>
#include <typeinfo>

IA_EXPOSE(TensorQuantizer, at::QTensorImpl, at::QuantizerPtr, quantizer_);
IA_EXPOSE(ChannelScales, at::PerChannelAffineQuantizer, at::Tensor, scales_);
IA_EXPOSE(ChannelZeros, at::PerChannelAffineQuantizer, at::Tensor,
          zero_points_);

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

/* torch.func's own, as far as it is asked: its header wants that of a library
 * which torch does not bring. */
struct FuncWrapper : public c10::TensorImpl {
    at::Tensor value_;

    const at::Tensor &value() const
    {
        return value_;
    }
};

const FuncWrapper *
func_wrapper(const c10::TensorImpl &impl)
{
    return strcmp(typeid(impl).name(), "N2at9functorch13TensorWrapperE") == 0
               ? static_cast<const FuncWrapper *>(&impl)
               : nullptr;
}

template <typename T>
const T *
as(const c10::TensorImpl &impl)
{
    return dynamic_cast<const T *>(&impl);
}

using Parts = ia::Part (&)[ia::kMostParts];

template <typename T>
size_t
value_of(const T *wrapper, Parts parts)
{
    if (wrapper == nullptr) {
        return 0;
    }
    parts[0] = {&wrapper->value(), "value"};
    return 1;
}

size_t
wrapped(const c10::TensorImpl &impl, DispatchKeySet keys, Parts parts)
{
    if (keys.has(DispatchKey::FuncTorchGradWrapper)) {
        return value_of(func_wrapper(impl), parts);
    }
    if (keys.has(DispatchKey::FuncTorchBatched)) {
        return value_of(as<at::functorch::BatchedTensorImpl>(impl), parts);
    }
    return keys.has(DispatchKey::Functionalize)
               ? value_of(as<at::FunctionalTensorWrapper>(impl), parts)
               : 0;
}

size_t
sparse(const c10::TensorImpl &impl, Parts parts)
{
    if (auto *coo = as<at::SparseTensorImpl>(impl)) {
        parts[0] = {&coo->values_, "values"};
        parts[1] = {&coo->indices_, "indices"};
        return 2;
    }
    if (auto *csr = as<at::SparseCsrTensorImpl>(impl)) {
        parts[0] = {&csr->values(), "values"};
        parts[1] = {&csr->compressed_indices(), "compressed_indices"};
        parts[2] = {&csr->plain_indices(), "plain_indices"};
        return 3;
    }
    return 0;
}

size_t
nested(const c10::TensorImpl &impl, Parts parts)
{
    auto *nested = as<at::native::NestedTensorImpl>(impl);

    if (nested == nullptr) {
        return 0;
    }
    parts[0] = {&nested->get_nested_sizes(), "sizes"};
    parts[1] = {&nested->get_nested_strides(), "strides"};
    parts[2] = {&nested->get_storage_offsets(), "offsets"};
    return 3;
}

size_t
quantized(const c10::TensorImpl &impl, Parts parts)
{
    auto *tensor = as<at::QTensorImpl>(impl);
    auto *channels = tensor == nullptr
                         ? nullptr
                         : dynamic_cast<const at::PerChannelAffineQuantizer *>(
                               (tensor->*reach(TensorQuantizer())).get());

    if (channels == nullptr) {
        return 0;
    }
    parts[0] = {&(channels->*reach(ChannelScales())), "scales"};
    parts[1] = {&(channels->*reach(ChannelZeros())), "zero_points"};
    return 2;
}

} // namespace

size_t
ia::parts_of(const c10::TensorImpl &impl, Part (&parts)[kMostParts])
{
    DispatchKeySet keys = impl.key_set();
    size_t found = wrapped(impl, keys, parts);

    if (found > 0) {
        return found;
    }
    if (keys.has_any(c10::sparse_ks | c10::sparse_csr_ks)) {
        return sparse(impl, parts);
    }
    if (impl.is_nested()) {
        return nested(impl, parts);
    }
    return impl.is_quantized() ? quantized(impl, parts) : 0;
}
