/* What can be read off a tensor without running Python: its storage, shape,
 * dtype and device, and storages followed weakly because no allocator hook
 * sees them.
 *
 * Tensors may be anything (sparse, fake, batched, a Python wrapper), so only
 * plain members are read, never a method that a subclass may override.
 */
#include "hooks.h"
#include "torch_compat.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

IA_EXPOSE(TensorDevice, c10::TensorImpl, std::optional<c10::Device>,
          device_opt_);
IA_EXPOSE(StorageData, c10::StorageImpl, c10::DataPtr, data_ptr_);
IA_EXPOSE(StorageSize, c10::StorageImpl, c10::SymInt, size_bytes_);

namespace {

using Followed = ska::flat_hash_map<c10::StorageImpl *,
                                    c10::weak_intrusive_ptr<c10::StorageImpl>>;

/* GIL.  Never destroyed: torch may be gone when we would be. */
Followed &
followed()
{
    static auto *table = new Followed();
    return *table;
}

const at::Tensor &
unpack(PyObject *tensor)
{
    return reinterpret_cast<THPVariable *>(tensor)->cdata;
}

template <size_t N>
void
put_text(char (&to)[N], std::string_view text)
{
    size_t length = std::min(text.size(), N - 1);
    std::copy_n(text.data(), length, to);
    to[length] = '\0';
}

/* What is expanded, or slides over itself, has more elements than memory. */
uint64_t
span_of(const c10::TensorImpl &impl, c10::IntArrayRef sizes)
{
    c10::IntArrayRef strides = impl.strides_default();
    uint64_t last = 0;
    if (strides.size() != sizes.size()) {
        return 0;
    }
    for (size_t i = 0; i < sizes.size(); i++) {
        if (sizes[i] == 0) {
            return 0;
        }
        last += static_cast<uint64_t>(sizes[i] - 1) *
                static_cast<uint64_t>(strides[i]);
    }
    return (last + 1) * impl.dtype().itemsize();
}

void
describe_shape(const c10::TensorImpl &impl, ia_tensor_info *info)
{
    info->dims = -1;
    if (!ia::stands_still() || impl.has_symbolic_sizes_strides() ||
        impl.key_set().has(c10::DispatchKey::NestedTensor)) {
        return;
    }
    c10::IntArrayRef sizes = impl.sizes_default();
    size_t shown = std::min<size_t>(sizes.size(), IA_MAX_DIMS);
    std::copy_n(sizes.begin(), shown, info->shape);
    info->dims = static_cast<int>(sizes.size());
    info->span = span_of(impl, sizes);
}

bool
is_parameter(PyObject *tensor)
{
    return ParameterClass != nullptr &&
           PyType_IsSubtype(Py_TYPE(tensor),
                            reinterpret_cast<PyTypeObject *>(ParameterClass));
}

void
describe_type(const c10::TensorImpl &impl, ia_tensor_info *info)
{
    const auto &device = impl.*reach(TensorDevice());
    put_text(
        info->dtype,
        c10::getDtypeNames(c10::typeMetaToScalarType(impl.dtype())).first);
    put_text(info->device, device.has_value() ? device->str() : "");
}

int
describe(PyObject *object, ia_tensor_info *info)
{
    const at::Tensor &tensor = unpack(object);

    *info = ia_tensor_info{};
    if (!tensor.defined()) {
        return 0;
    }
    const c10::TensorImpl &impl = *tensor.unsafeGetTensorImpl();
    auto *meta = torch::autograd::impl::get_autograd_meta(tensor);
    ia::storage_info(&impl, &info->storage);
    describe_shape(impl, info);
    describe_type(impl, info);
    info->requires_grad = meta != nullptr && meta->requires_grad();
    info->is_leaf = meta == nullptr || !meta->grad_fn_;
    info->is_parameter = is_parameter(object);
    if (impl.version_counter().enabled()) {
        info->writes = impl.version_counter().current_version();
    }
    return 1;
}

/* Is the block reported by its allocator, the CPU's or a device's?  Memory
 * that came from elsewhere (other processes, DLPack) lies there, too. */
bool
is_reported(const c10::DataPtr &block)
{
    if (ia::from_hooked_allocator(block)) {
        return true;
    }
    const c10::Device device = block.device();
    return ia_api->device_followed(ia::device_code(device)) &&
           c10::GetAllocator(device.type())->raw_deleter() ==
               block.get_deleter();
}

/* The weak reference is made as such: letting go of a strong one may free the
 * storage, and run what its owner has put into the deleter. */
int
follow_storage(c10::StorageImpl *impl)
{
    if (followed().find(impl) == followed().end()) {
        c10::raw::weak_intrusive_ptr::incref(impl);
        followed().emplace(
            impl, c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(impl));
    }
    return 1;
}

int
follow(PyObject *object)
{
    const at::Tensor &tensor = unpack(object);
    if (!tensor.defined()) {
        return 0;
    }
    if (!ia::stands_still()) {
        return -1;
    }
    c10::StorageImpl *impl =
        tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (impl == nullptr || is_reported(impl->*reach(StorageData()))) {
        return 0;
    }
    return follow_storage(impl);
}

/* A dead StorageImpl keeps its address while our weak reference is there,
 * so the death is told before it goes. */
int
sweep()
{
    std::vector<c10::StorageImpl *> dead;
    for (const auto &entry : followed()) {
        if (entry.second.expired()) {
            dead.push_back(entry.first);
        }
    }
    for (c10::StorageImpl *impl : dead) {
        ia_api->storage_died(reinterpret_cast<uintptr_t>(impl));
        followed().erase(impl);
    }
    return 0;
}

/* A symbol would be asked for its value in Python. */
size_t
bytes_said(const c10::SymInt &size)
{
    return size.is_heap_allocated()
               ? 0
               : static_cast<size_t>(
                     std::max<int64_t>(size.as_int_unchecked(), 0));
}

/* A tensor that wraps others (a DTensor over this rank's shard) says the size
 * of the whole and lies nowhere.  On the meta device all do: their bytes are
 * what somebody asks for there. */
bool
lies_nowhere(const c10::DataPtr &data)
{
    return data.get() == nullptr && !data.device().is_meta();
}

/* Past the checks of data_ptr(): it throws for fake tensors, and the mutable
 * one would make a copy-on-write storage copy. */
void
read_storage(const c10::StorageImpl &impl, ia_storage *storage)
{
    const c10::DataPtr &data = impl.*reach(StorageData());

    storage->data = reinterpret_cast<uintptr_t>(data.get());
    storage->bytes =
        lies_nowhere(data) ? 0 : bytes_said(impl.*reach(StorageSize()));
    storage->device = ia::device_code(data.device());
}

/* What a StorageImpl begins with, and nothing that has been freed. */
const void *
first_word(const void *impl)
{
    const void *word;
    memcpy(&word, impl, sizeof(word));
    return word;
}

/* The bytes of a StorageImpl that another thread may be freeing: the kernel
 * reads them, and fails where we would crash.  False where it is none. */
bool
copy_storage(const c10::StorageImpl *impl, char (&copy)[sizeof *impl])
{
    static const auto *sample = new c10::StorageImpl(
        c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(), nullptr,
        false);
    iovec to = {copy, sizeof(copy)};
    iovec from = {const_cast<c10::StorageImpl *>(impl), sizeof(copy)};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) ==
               static_cast<ssize_t>(sizeof(copy)) &&
           first_word(copy) == first_word(sample);
}

c10::StorageImpl *
storage_behind(PyObject *object)
{
    return reinterpret_cast<THPStorage *>(object)
        ->cdata.unsafeGetStorageImpl();
}

} // namespace

bool
ia::storage_info(const c10::StorageImpl *impl, ia_storage *storage)
{
    if (impl == nullptr) {
        return false;
    }
    if (stands_still()) {
        read_storage(*impl, storage);
    }
    else {
        alignas(c10::StorageImpl) char copy[sizeof(c10::StorageImpl)];
        if (!copy_storage(impl, copy)) {
            return false;
        }
        read_storage(*reinterpret_cast<const c10::StorageImpl *>(copy),
                     storage);
    }
    storage->impl = reinterpret_cast<uintptr_t>(impl);
    return true;
}

bool
ia::storage_info(const c10::TensorImpl *impl, ia_storage *storage)
{
    return storage_info(impl->unsafe_storage().unsafeGetStorageImpl(),
                        storage);
}

size_t
ia_tensor_object_bytes(void)
{
    return ia::block_of(sizeof(c10::TensorImpl)) +
           ia::block_of(sizeof(c10::StorageImpl));
}

int
ia_tensor_describe(PyObject *tensor, ia_tensor_info *info)
{
    return ia::guarded(0, [&] { return describe(tensor, info); });
}

int
ia_tensor_storage_of(PyObject *tensor, ia_storage *storage)
{
    return ia::guarded(0, [&]() -> int {
        const at::Tensor &value = unpack(tensor);
        return value.defined() &&
               ia::storage_info(value.unsafeGetTensorImpl(), storage);
    });
}

int
ia_tensor_follow(PyObject *tensor)
{
    return ia::guarded(0, [&] { return follow(tensor); });
}

void
ia_tensor_sweep(void)
{
    ia::guarded(0, [] { return sweep(); });
}

int
ia_storage_object_read(PyObject *object, ia_storage *storage)
{
    return ia::guarded(0, [&]() -> int {
        return ia::storage_info(storage_behind(object), storage);
    });
}

void
ia_storage_object_follow(PyObject *object)
{
    ia::guarded(0, [&] { return follow_storage(storage_behind(object)); });
}

void
ia_storage_object_adopt(PyObject *object)
{
    ia::guarded(0, [&] {
        c10::StorageImpl *impl = storage_behind(object);
        if (impl != nullptr) {
            ia::adopt_storage(impl);
        }
        return 0;
    });
}
