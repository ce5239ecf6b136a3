/* Births and deaths of CPU memory: an allocator over the one in force.
 *
 * A deleter outlives everything: blocks may die after uninstall(), and a
 * StorageImpl keeps its allocator for resize_().  So wrappers are static, a
 * fixed number of them, each bound for ever to the first base it was given.
 */
#include "hooks.h"

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace {

/* Different allocators seen under us in one process: the default one, and
 * whatever other tools register.  Installing again over a known one reuses
 * its slot. */
constexpr size_t kSlots = 8;

/* As device_code() has it. */
constexpr uint16_t kCpuDevice = 0;

struct Slot {
    c10::Allocator *base = nullptr; /* borrowed: static by contract */
    c10::DeleterFnPtr base_deleter = nullptr;
    std::atomic<bool> reporting{false};
};

std::array<Slot, kSlots> slots;

template <size_t N>
void
delete_block(void *block)
{
    /* First the ledger: once given back, another thread may get the same
     * address and report its birth before this death. */
    if (block != nullptr) {
        ia_api->storage_died(reinterpret_cast<uintptr_t>(block));
    }
    slots[N].base_deleter(block);
}

/* What the allocator throws goes on to the program as it is. */
c10::DataPtr
allocate_from(Slot &slot, size_t bytes)
{
    try {
        return slot.base->allocate(bytes);
    }
    catch (...) {
        if (slot.reporting.load(std::memory_order_relaxed)) {
            ia_api->recorder_oom(kCpuDevice, bytes);
        }
        throw;
    }
}

/* A block of this slot's base is reported, now and at its death. */
template <size_t N>
bool
take_over(c10::DataPtr &block, size_t bytes)
{
    Slot &slot = slots[N];
    if (slot.base_deleter == nullptr || block.get() != block.get_context() ||
        !block.compare_exchange_deleter(slot.base_deleter,
                                        &delete_block<N>)) {
        return false;
    }
    if (bytes != 0 && block.get() != nullptr &&
        slot.reporting.load(std::memory_order_relaxed)) {
        ia_api->storage_born(reinterpret_cast<uintptr_t>(block.get()), bytes,
                             ia::device_code(block.device()));
    }
    return true;
}

template <size_t N> class Wrapper final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        c10::DataPtr block = allocate_from(slots[N], bytes);
        take_over<N>(block, bytes);
        return block;
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return slots[N].base_deleter == nullptr ? nullptr : &delete_block<N>;
    }

    bool is_simple_data_ptr(const c10::DataPtr &block) const override
    {
        if (block.get_deleter() == &delete_block<N>) {
            return block.get() == block.get_context();
        }
        return slots[N].base->is_simple_data_ptr(block);
    }

    void copy_data(void *to, const void *from, size_t count) const override
    {
        slots[N].base->copy_data(to, from, count);
    }
};

template <size_t... N>
std::array<c10::Allocator *, kSlots>
make_wrappers(std::index_sequence<N...>)
{
    /* Never destroyed: deleters run after static destructors. */
    return {new Wrapper<N>()...};
}

const std::array<c10::Allocator *, kSlots> &
wrappers()
{
    static const auto all = make_wrappers(std::make_index_sequence<kSlots>());
    return all;
}

int
slot_of_wrapper(const c10::Allocator *allocator)
{
    for (size_t i = 0; i < kSlots; i++) {
        if (wrappers()[i] == allocator) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

/* The slot bound to `base`, or a free one bound to it now, or -1. */
int
slot_for_base(c10::Allocator *base)
{
    for (size_t i = 0; i < kSlots; i++) {
        if (slots[i].base == nullptr) {
            slots[i].base = base;
            slots[i].base_deleter = base->raw_deleter();
        }
        if (slots[i].base == base) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

int
current_slot()
{
    return slot_of_wrapper(c10::GetAllocator(c10::kCPU));
}

/* Registers at the priority that is in force: c10 keeps it to itself, but
 * the lowest one it accepts is equal to it.  Nothing changes for others. */
bool
set_allocator(c10::Allocator *allocator)
{
    for (int priority = 0; priority <= UINT8_MAX; priority++) {
        c10::SetAllocator(c10::kCPU, allocator,
                          static_cast<uint8_t>(priority));
        if (c10::GetAllocator(c10::kCPU) == allocator) {
            return true;
        }
    }
    return false;
}

/* Silences every slot but one: of two wrappers in a chain one reports. */
void
report_only(int chosen)
{
    for (size_t i = 0; i < kSlots; i++) {
        slots[i].reporting.store(static_cast<int>(i) == chosen,
                                 std::memory_order_relaxed);
    }
}

int
install()
{
    int slot = current_slot();
    if (slot < 0) {
        slot = slot_for_base(c10::GetAllocator(c10::kCPU));
        if (slot < 0) {
            PyErr_Format(PyExc_RuntimeError,
                         "the CPU allocator was replaced %zu times in this "
                         "process; restart it to watch memory again",
                         kSlots);
            return -1;
        }
        if (!set_allocator(wrappers()[static_cast<size_t>(slot)])) {
            PyErr_SetString(PyExc_RuntimeError,
                            "torch refused another CPU allocator");
            return -1;
        }
    }
    report_only(slot);
    return 0;
}

template <size_t... N>
bool
is_delete_block(c10::DeleterFnPtr deleter, std::index_sequence<N...>)
{
    return ((deleter == &delete_block<N>) || ...);
}

template <size_t... N>
void
take_over_in(int slot, c10::DataPtr &block, size_t bytes,
             std::index_sequence<N...>)
{
    (void)((slot == static_cast<int>(N) && take_over<N>(block, bytes)) || ...);
}

} // namespace

/* Memory that was allocated by the base under our wrapper, and grows through
 * the wrapper from here on. */
void
ia::adopt_storage(c10::StorageImpl *impl)
{
    int slot = current_slot();
    if (slot < 0 || impl->allocator() != slots[static_cast<size_t>(slot)].base) {
        return;
    }
    c10::Allocator *wrapper = wrappers()[static_cast<size_t>(slot)];
    take_over_in(slot, impl->_mutable_data_ptr_no_checks(), impl->nbytes(),
                 std::make_index_sequence<kSlots>());
    impl->set_allocator(wrapper);
}

/* Such a block was reported at its birth, or is older than the watch. */
bool
ia::from_hooked_allocator(const c10::DataPtr &block)
{
    c10::DeleterFnPtr deleter = block.get_deleter();
    if (deleter == nullptr) {
        return false;
    }
    for (const Slot &slot : slots) {
        if (slot.base != nullptr && deleter == slot.base_deleter) {
            return true;
        }
    }
    return is_delete_block(deleter, std::make_index_sequence<kSlots>());
}

int
ia_allocator_install(void)
{
    try {
        return install();
    }
    catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return -1;
    }
}

void
ia_allocator_uninstall(void)
{
    int slot = current_slot();
    report_only(-1);
    if (slot >= 0) {
        set_allocator(slots[static_cast<size_t>(slot)].base);
    }
}

void
ia_allocator_silence(void)
{
    report_only(-1);
}

int
ia_allocator_installed(void)
{
    int slot = current_slot();
    return slot >= 0 &&
           slots[static_cast<size_t>(slot)].reporting.load();
}
