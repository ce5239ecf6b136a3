/* Events of torch's CUDA allocator, passed on to the core.
 *
 * The callback runs under the lock of the device's allocator, on whatever
 * thread allocates or frees, with or without the GIL.  It calls nothing of
 * torch's or CUDA's, so it can neither synchronise nor launch nor allocate on
 * a device, and is legal while a CUDA graph is being captured.  Under that
 * lock the core takes one of its own, which is a leaf (see devices.h).
 *
 * torch offers no way to detach.  The callback is attached once, stays for
 * the life of the process, and says nothing while nobody watches.
 */
#include "hooks.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif

#include <atomic>
#include <exception>

namespace allocator = c10::cuda::CUDACachingAllocator;
using allocator::TraceEntry;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

namespace {

std::atomic<bool> reporting{false};
bool attached; /* GIL */

/* A number for a pool: 0 for the common one, and no other's number. */
template <typename Entry>
uint64_t
pool_of(const Entry &entry)
{
    if constexpr (requires { entry.mempool_.first; }) {
        return static_cast<uint64_t>(entry.mempool_.first) << 32 |
               static_cast<uint64_t>(entry.mempool_.second);
    }
    else {
        return 0;
    }
}

/* What torch reports beside these (snapshots, annotations) is no change. */
int
action_of(TraceEntry::Action action)
{
    switch (action) {
    case TraceEntry::ALLOC:
        return IA_DEVICE_ALLOC;
    case TraceEntry::FREE_REQUESTED:
        return IA_DEVICE_FREE_REQUESTED;
    case TraceEntry::FREE_COMPLETED:
        return IA_DEVICE_FREE_COMPLETED;
    case TraceEntry::SEGMENT_ALLOC:
        return IA_DEVICE_SEGMENT_ALLOC;
    case TraceEntry::SEGMENT_FREE:
        return IA_DEVICE_SEGMENT_FREE;
    case TraceEntry::SEGMENT_MAP:
        return IA_DEVICE_SEGMENT_MAP;
    case TraceEntry::SEGMENT_UNMAP:
        return IA_DEVICE_SEGMENT_UNMAP;
    case TraceEntry::OOM:
        return IA_DEVICE_OOM;
    default:
        return -1;
    }
}

void
on_event(const TraceEntry &entry) noexcept
{
    int action = action_of(entry.action_);
    if (action < 0 || !reporting.load(std::memory_order_relaxed)) {
        return;
    }
    ia_device_event event = {};
    event.address = entry.addr_;
    event.bytes = entry.size_;
    event.stream = reinterpret_cast<uintptr_t>(entry.stream_);
    event.pool = pool_of(entry);
    event.device = static_cast<uint32_t>(c10::DeviceType::CUDA) << 8 |
                   static_cast<uint32_t>(entry.device_ & 0xff);
    event.action = static_cast<uint32_t>(action);
    ia_api->device_event(&event);
}

/* Runs f; what it throws becomes a RuntimeError, of its first line only. */
template <typename F>
PyObject *
translated(F &&f)
{
    try {
        return f();
    }
    catch (const c10::Error &error) {
        PyErr_SetString(PyExc_RuntimeError,
                        error.what_without_backtrace());
    }
    catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

} // namespace

/* Allocators of devices are made when CUDA is initialized; attached before
 * that, the callback would be with none of them. */
int
ia_trace_attach(void)
{
    PyObject *done = translated([]() -> PyObject * {
        if (!allocator::get()->initialized()) {
            PyErr_SetString(PyExc_RuntimeError,
                            "CUDA is not initialized yet: call "
                            "torch.cuda.init() first");
            return nullptr;
        }
        if (!attached) {
            allocator::attachAllocatorTraceTracker(on_event);
            attached = true;
        }
        reporting.store(true);
        return Py_NewRef(Py_None);
    });
    Py_XDECREF(done);
    return done == nullptr ? -1 : 0;
}

int
ia_trace_attached(void)
{
    return attached && reporting.load();
}

void
ia_trace_silence(void)
{
    reporting.store(false);
}

PyObject *
ia_trace_allocator(void)
{
    return translated(
        [] { return PyUnicode_FromString(allocator::name().c_str()); });
}

PyObject *
ia_trace_rules(void)
{
    return translated([]() -> PyObject * {
        const auto divisions = Config::roundup_power2_divisions();
        PyObject *tuple =
            PyTuple_New(static_cast<Py_ssize_t>(divisions.size()));
        for (size_t i = 0; tuple != nullptr && i < divisions.size(); i++) {
            PyObject *number = PyLong_FromSize_t(divisions[i]);
            if (number == nullptr) {
                Py_CLEAR(tuple);
                break;
            }
            PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), number);
        }
        if (tuple == nullptr) {
            return nullptr;
        }
        return Py_BuildValue(
            "KN", static_cast<unsigned long long>(Config::max_split_size()),
            tuple);
    });
}

const char *
ia_trace_torch_version(void)
{
    return TORCH_VERSION;
}
