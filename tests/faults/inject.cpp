/* Preloaded: lets allocations of impactarbiter's modules fail, one at a time.
 *
 * A call counts where its return address lies in _core or _torch as they
 * were shipped: nothing is compiled in.  What the C library or torch take on
 * their own account, and all of Python, goes through untouched.  glibc only.
 */
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <new>
#include <sys/mman.h>

#define OURS __attribute__((visibility("default")))

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
}

namespace {

struct range {
    uintptr_t start, end, base;
    bool torch; /* of _torch, else of _core */
};

constexpr int MOST_RANGES = 16; /* executable segments of two modules */
constexpr int MOST_FRAMES = 12; /* looked at, to tell one call from another */
constexpr int DEPTH = 4;        /* of them in our modules, that count */
constexpr long MOST_CALLS = 1 << 20;

/* Where a call came from: offsets in our modules, the innermost first. */
struct place {
    uint32_t offsets[DEPTH];
};

range ranges[MOST_RANGES];
std::atomic<int> nranges;
std::atomic<long> calls, left;
std::atomic<uint64_t> target; /* a place's number, 0: none */
std::atomic<bool> for_ever;   /* all later ones at that place, too */
std::atomic<bool> on;
thread_local bool busy; /* telling where we are */
place places[MOST_CALLS];
uint64_t numbers[MOST_CALLS];

int
add_module(dl_phdr_info *info, size_t, void *)
{
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    bool torch = std::strstr(name, "impactarbiter/_torch") != nullptr;
    if (!torch && std::strstr(name, "impactarbiter/_core") == nullptr)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && nranges < MOST_RANGES; i++) {
        const ElfW(Phdr) &p = info->dlpi_phdr[i];
        if (p.p_type != PT_LOAD || (p.p_flags & PF_X) == 0)
            continue;
        uintptr_t start = info->dlpi_addr + p.p_vaddr;
        ranges[nranges++] = {start, start + p.p_memsz, info->dlpi_addr,
                              torch};
    }
    return 0;
}

/* Of an address in one of our modules, with IN_TORCH set for _torch; else 0. */
constexpr uint32_t IN_TORCH = 1u << 31;

uint32_t
offset_of(uintptr_t at)
{
    for (int i = 0; i < nranges; i++)
        if (at >= ranges[i].start && at < ranges[i].end)
            return (uint32_t)(at - ranges[i].base) |
                   (ranges[i].torch ? IN_TORCH : 0);
    return 0;
}

/* The same in each run of one build. */
uint64_t
place_now(place *out)
{
    void *frames[MOST_FRAMES];
    int n = backtrace(frames, MOST_FRAMES), depth = 0;
    uint64_t number = 1;
    *out = {};
    for (int i = 0; i < n && depth < DEPTH; i++) {
        uint32_t offset = offset_of((uintptr_t)frames[i]);
        if (offset == 0)
            continue;
        out->offsets[depth++] = offset;
        number = (number ^ offset) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return number;
}

/* Whether this call is the one that gets nothing. */
bool
fails(void *caller)
{
    if (!on || busy || offset_of((uintptr_t)caller) == 0)
        return false;
    place here;
    busy = true;
    uint64_t number = place_now(&here);
    busy = false;
    long call = calls++;
    if (call < MOST_CALLS) {
        places[call] = here;
        numbers[call] = number;
    }
    if (number != target)
        return false;
    long before = left--;
    return before == 1 || (before < 1 && for_ever);
}

} // namespace

extern "C" {

/* The n-th call from a place fails, from now on; none where that is 0. */
OURS void
ia_faults_begin(uint64_t place, long n, int and_all_after)
{
    void *first[1];
    on = false;
    backtrace(first, 1); /* it loads what it needs */
    nranges = 0;
    dl_iterate_phdr(add_module, nullptr);
    calls = 0;
    left = n;
    target = place;
    for_ever = and_all_after != 0;
    on = true;
}

/* How many calls there were. */
OURS long
ia_faults_end(void)
{
    on = false;
    return calls;
}

/* Names the place that the i-th of them came from. */
OURS uint64_t
ia_faults_number(long i)
{
    return 0 <= i && i < MOST_CALLS ? numbers[i] : 0;
}

OURS uint32_t
ia_faults_offset(long i, int depth)
{
    return 0 <= i && i < MOST_CALLS && 0 <= depth && depth < DEPTH
               ? places[i].offsets[depth]
               : 0;
}

OURS void *
malloc(size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return nullptr;
    }
    return __libc_malloc(size);
}

OURS void *
calloc(size_t n, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return nullptr;
    }
    return __libc_calloc(n, size);
}

OURS void *
realloc(void *block, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return nullptr;
    }
    return __libc_realloc(block, size);
}

OURS char *
strdup(const char *text)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return nullptr;
    }
    size_t size = std::strlen(text) + 1;
    void *copy = __libc_malloc(size);
    return copy != nullptr ? (char *)std::memcpy(copy, text, size) : nullptr;
}

OURS void *
mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    using function = void *(void *, size_t, int, int, int, off_t);
    static auto *next = (function *)dlsym(RTLD_NEXT, "mmap");
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(at, size, protection, flags, file, offset);
}

} // extern "C"

OURS void *
operator new(size_t size)
{
    if (!fails(__builtin_return_address(0))) {
        void *block = __libc_malloc(size ? size : 1);
        if (block != nullptr)
            return block;
    }
    throw std::bad_alloc();
}

OURS void *
operator new[](size_t size)
{
    if (!fails(__builtin_return_address(0))) {
        void *block = __libc_malloc(size ? size : 1);
        if (block != nullptr)
            return block;
    }
    throw std::bad_alloc();
}
