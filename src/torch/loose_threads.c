/* How many threads run torch's code without the GIL just now.
 *
 * Only such a thread can change an autograd graph or a tensor under a walk,
 * and it can only get there with the GIL in its hand.  So whoever holds the
 * GIL and sees none keeps it so: the world stands still until he lets go.
 *
 * torch's libraries drop the GIL and take it back by four pairs of calls into
 * the interpreter.  While a watch or a question lasts, the slots over which
 * the dynamic linker binds these calls lead through here.  Slots are changed
 * with the GIL held, as are `uses` and all that is not atomic.
 */
#include "../core/base/compat.h"
#include "../core/base/seldom.h"
#include "../core/base/thread.h"
#include "hooks.h"
#include "pool_threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A thread that was loose before the slots were changed is seen once it has
 * come back.  An operator takes microseconds, seldom more than this; but on a
 * busy machine its thread may not run for long: until all have been seen at
 * rest, none is trusted before TRUST_NS. */
#define GRACE_NS 20000000
#define TRUST_NS 2000000000

/* How long a walk waits, with the GIL, for loose threads to come back: well
 * below what a walk over a large heap takes itself. */
#define PATIENCE_NS 50000000
#define NAP_NS 50000

/* -- who is loose --------------------------------------------------------- */

/* Of one thread; made with the GIL, kept for ever, and given to another thread
 * once its own has ended. */
typedef struct thread_mark {
    struct thread_mark *next;
    atomic_int owned;      /* by a thread that lives */
    _Atomic uint32_t loose; /* since this installation; 0 = bound */
    uint64_t ensured; /* was it loose, a bit for each nested gil_ensure() */
} thread_mark;

static thread_mark *marks; /* GIL */
static IA_OF_THREAD thread_mark *self;
/* The number of the installation: threads that an earlier one saw go loose
 * are so no more.  Never 0. */
static _Atomic uint32_t epoch = 1;

static pthread_key_t end_of_thread;
static int has_key; /* GIL */
static int known;   /* GIL: the marks tell all */

static inline int
is_loose(void)
{
    return self != NULL &&
           atomic_load_explicit(&self->loose, memory_order_relaxed) == epoch;
}

static void
give_up_mark(void *mark)
{
    self = NULL;
    atomic_store(&((thread_mark *)mark)->loose, 0);
    atomic_store(&((thread_mark *)mark)->owned, 0);
}

/* GIL: nobody else takes one meanwhile.  NULL when memory is short. */
static IA_SELDOM thread_mark *
take_mark(void)
{
    thread_mark *m = marks;

    if (!has_key) {
        has_key = pthread_key_create(&end_of_thread, give_up_mark) == 0;
    }
    while (m != NULL && atomic_load(&m->owned)) {
        m = m->next;
    }
    if (m == NULL && has_key && (m = calloc(1, sizeof *m)) != NULL) {
        m->next = marks;
        marks = m;
    }
    if (m == NULL || pthread_setspecific(end_of_thread, m) != 0) {
        return NULL;
    }
    m->ensured = 0;
    atomic_store(&m->owned, 1);
    return self = m;
}

/* GIL: while we have it, nobody else does this, and whoever has it after us
 * sees the mark.  A thread without a Python frame was not sent by one: the
 * engine's own let go of the GIL when they begin and work while somebody who
 * was counted waits for them. */
static inline void
let_loose(void)
{
    if (!ia_has_frames(_PyThreadState_GET())) {
        return;
    }
    if (self == NULL && take_mark() == NULL) {
        known = 0;
        return;
    }
    atomic_store_explicit(&self->loose, epoch, memory_order_relaxed);
}

/* Before waiting for the GIL: from here on the thread changes nothing that
 * is torch's until it has it. */
static inline void
bind(void)
{
    if (self != NULL) {
        atomic_store_explicit(&self->loose, 0, memory_order_release);
    }
}

/* -- what the slots lead to ----------------------------------------------- */

static PyThreadState *
save_thread(void)
{
    let_loose();
    return PyEval_SaveThread();
}

static void
restore_thread(PyThreadState *state)
{
    bind();
    PyEval_RestoreThread(state);
}

static void
acquire_thread(PyThreadState *state)
{
    bind();
    PyEval_AcquireThread(state);
}

static PyGILState_STATE
gil_ensure(void)
{
    if (self != NULL) {
        self->ensured = self->ensured << 1 | (uint64_t)is_loose();
    }
    bind();
    return PyGILState_Ensure();
}

/* Back to where gil_ensure() came from. */
static void
gil_release(PyGILState_STATE state)
{
    if (self != NULL) {
        if (self->ensured & 1) {
            let_loose();
        }
        self->ensured >>= 1;
    }
    PyGILState_Release(state);
}

static const struct {
    const char *name;
    void (*real)(void);
    void (*ours)(void);
} calls[] = {
#define CALL(NAME, OURS) \
    {#NAME, (void (*)(void))(NAME), (void (*)(void))(OURS)}
    CALL(PyEval_SaveThread, save_thread),
    CALL(PyEval_RestoreThread, restore_thread),
    CALL(PyEval_AcquireThread, acquire_thread),
    CALL(PyGILState_Ensure, gil_ensure),
    CALL(PyGILState_Release, gil_release),
};
#define CALLS (sizeof calls / sizeof calls[0])

/* -- the slots ------------------------------------------------------------ */

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#ifdef __x86_64__
#define IS_SLOT(TYPE) ((TYPE) == R_X86_64_JUMP_SLOT || (TYPE) == R_X86_64_GLOB_DAT)
#else
#define IS_SLOT(TYPE) ((TYPE) == R_AARCH64_JUMP_SLOT || (TYPE) == R_AARCH64_GLOB_DAT)
#endif

/* torch's own library, some of its extensions; more than this is no program
 * that we know, and leaves the count unknown. */
#define MAX_SLOTS 256

typedef struct {
    _Atomic(uintptr_t) *at;
    int call;         /* index into calls */
    int read_only;    /* to be opened for writing */
} slot;

static struct {
    slot items[MAX_SLOTS];
    int count;
    int failed;
    unsigned long long loads; /* of libraries, and unloads, until then */
} slots;

typedef struct {
    uintptr_t base;
    const char *strings;
    const ElfW(Sym) *symbols;
    const ElfW(Rela) *relocations[2];
    size_t sizes[2];
} library;

/* glibc relocates these addresses in place, other C libraries do not. */
static uintptr_t
address_in(const library *lib, ElfW(Addr) address)
{
    return address < lib->base ? lib->base + address : address;
}

static void
read_library(library *lib, const ElfW(Dyn) *dynamic)
{
    size_t unnamed = 0; /* relocations without a symbol */

    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = address_in(lib, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_STRTAB:
            lib->strings = (const char *)at;
            break;
        case DT_SYMTAB:
            lib->symbols = (const ElfW(Sym) *)at;
            break;
        case DT_JMPREL:
            lib->relocations[0] = (const ElfW(Rela) *)at;
            break;
        case DT_PLTRELSZ:
            lib->sizes[0] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            lib->relocations[1] = (const ElfW(Rela) *)at;
            break;
        case DT_RELASZ:
            lib->sizes[1] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            unnamed = dynamic->d_un.d_val;
            break;
        }
    }
    /* They come first, and libtorch_cpu has 226,000: reading them takes longer than
     * all the rest. */
    if (unnamed <= lib->sizes[1]) {
        lib->relocations[1] += unnamed;
        lib->sizes[1] -= unnamed;
    }
}

/* Is it torch's, or built upon it? */
static int
needs_torch(const library *lib, const ElfW(Dyn) *dynamic)
{
    for (; lib->strings && dynamic->d_tag != DT_NULL; dynamic++) {
        const char *name = lib->strings + dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_NEEDED &&
            (strncmp(name, "libtorch", 8) == 0 ||
             strncmp(name, "libc10", 6) == 0)) {
            return 1;
        }
    }
    return 0;
}

static int
lies_in(const struct dl_phdr_info *info, uintptr_t address, uint32_t type)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == type && address >= start &&
            address - start < part->p_memsz) {
            return 1;
        }
    }
    return 0;
}

/* The index of the call that a library gets from elsewhere, or -1. */
static int
call_of(const library *lib, const ElfW(Sym) *symbol)
{
    const char *name = lib->strings + symbol->st_name;
    if (symbol->st_shndx != SHN_UNDEF) {
        return -1;
    }
    for (int i = 0; i < (int)CALLS; i++) {
        if (strcmp(name, calls[i].name) == 0) {
            return i;
        }
    }
    return -1;
}

/* A slot that leads to somebody else, neither the call nor the library's own
 * code that is yet to bind it, is not ours to change. */
static void
add_slot(const struct dl_phdr_info *info, uintptr_t at, int call)
{
    uintptr_t to = *(uintptr_t *)at;
    if (slots.count == MAX_SLOTS ||
        (to != (uintptr_t)calls[call].ours &&
         to != (uintptr_t)calls[call].real && !lies_in(info, to, PT_LOAD))) {
        slots.failed = 1;
        return;
    }
    slots.items[slots.count++] =
        (slot){(_Atomic(uintptr_t) *)at, call,
               lies_in(info, at, PT_GNU_RELRO)};
}

static int
find_slots(struct dl_phdr_info *info, size_t Py_UNUSED(size),
           void *Py_UNUSED(arg))
{
    library lib = {.base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr +
                                          info->dlpi_phdr[i].p_vaddr);
        }
    }
    if (dynamic == NULL || lies_in(info, (uintptr_t)&epoch, PT_LOAD)) {
        return 0;
    }
    read_library(&lib, dynamic);
    if (lib.symbols == NULL || !needs_torch(&lib, dynamic)) {
        return 0;
    }
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < lib.sizes[table]; i++) {
            const ElfW(Rela) *r = &lib.relocations[table][i];
            if (!IS_SLOT(ELF64_R_TYPE(r->r_info))) {
                continue;
            }
            int call = call_of(&lib, &lib.symbols[ELF64_R_SYM(r->r_info)]);
            if (call >= 0) {
                add_slot(info, lib.base + r->r_offset, call);
            }
        }
    }
    return 0;
}

static int
count_loads(struct dl_phdr_info *info, size_t Py_UNUSED(size), void *arg)
{
    *(unsigned long long *)arg = info->dlpi_adds + info->dlpi_subs;
    return 1;
}

/* Anew where a library was loaded or unloaded since the last time. */
static void
look_for_slots(void)
{
    unsigned long long loads = 0;

    dl_iterate_phdr(count_loads, &loads);
    if (loads != slots.loads) {
        slots.count = slots.failed = 0;
        dl_iterate_phdr(find_slots, NULL);
        slots.loads = loads;
    }
}

static int
open_page(const slot *s, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return s->read_only ? mprotect((void *)((uintptr_t)s->at / page * page),
                                   page, protection)
                        : 0;
}

static int
set_slot(const slot *s, uintptr_t to)
{
    if (open_page(s, PROT_READ | PROT_WRITE) < 0) {
        return -1;
    }
    atomic_store(s->at, to);
    open_page(s, PROT_READ);
    return 0;
}

/* 1 when every call of torch's leads through here. */
static int
take_slots(void)
{
    look_for_slots();
    for (int i = 0; i < slots.count; i++) {
        const slot *s = &slots.items[i];
        uintptr_t ours = (uintptr_t)calls[s->call].ours;
        if (atomic_load(s->at) != ours && set_slot(s, ours) < 0) {
            return 0;
        }
    }
    return slots.count > 0 && !slots.failed;
}

/* A slot that was not bound yet is now. */
static void
give_slots_back(void)
{
    look_for_slots();
    for (int i = 0; i < slots.count; i++) {
        const slot *s = &slots.items[i];
        if (atomic_load(s->at) == (uintptr_t)calls[s->call].ours) {
            set_slot(s, (uintptr_t)calls[s->call].real);
        }
    }
}

#else /* where we don't know how libraries are bound */

static int
take_slots(void)
{
    return 0;
}

static void
give_slots_back(void)
{
}

#endif

/* -- from install to uninstall -------------------------------------------- */

static int uses;
static int64_t taken_at;
static int came_back; /* all threads that were loose at that time */

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
nap(int64_t ns)
{
    struct timespec rest = {0, (long)ns};
    nanosleep(&rest, NULL);
}

static void
begin_anew(void)
{
    uint32_t next = atomic_load(&epoch) + 1;
    atomic_store(&epoch, next != 0 ? next : 1);
}

/* It has this thread alone. */
static void
in_child(void)
{
    begin_anew();
    for (thread_mark *m = marks; m != NULL; m = m->next) {
        if (m != self) {
            atomic_store(&m->owned, 0);
        }
    }
}

void
ia_loose_install(void)
{
    static int registered;

    if (!registered) {
        registered = pthread_atfork(NULL, NULL, in_child) == 0;
    }
    if (uses++ == 0) {
        begin_anew();
        taken_at = now_ns();
        came_back = 0;
    }
    known = take_slots();
}

void
ia_loose_uninstall(void)
{
    if (uses > 0 && --uses == 0) {
        give_slots_back();
        known = 0;
    }
}

int
ia_loose_installed(void)
{
    return known;
}

/* -- is anybody there? ----------------------------------------------------- */

static int
is_only_thread(void)
{
    PyThreadState *first =
        PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    return PyThreadState_Next(first) == NULL;
}

/* The caller has the GIL, and is not loose whatever way he came by it. */
static int
others(void)
{
    const thread_mark *m = marks;

    while (m != NULL && (m == self || atomic_load(&m->loose) != epoch)) {
        m = m->next;
    }
    return m != NULL;
}

/* By what the kernel says.  One that waits for the GIL does not run; nor is
 * there one where nothing can be read. */
static int
runs(unsigned long thread)
{
    char text[256] = "";
    snprintf(text, sizeof text, "/proc/self/task/%lu/stat", thread);
    int file = open(text, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && strncmp(name_end, ") R", 3) == 0;
}

static int
somebody_runs(void)
{
    PyThreadState *mine = PyThreadState_Get();
    PyThreadState *thread =
        PyInterpreterState_ThreadHead(PyInterpreterState_Get());

    while (thread != NULL &&
           (thread == mine || !runs(thread->native_thread_id))) {
        thread = PyThreadState_Next(thread);
    }
    return thread != NULL;
}

static int
all_came_back(void)
{
    if (!came_back) {
        came_back = now_ns() - taken_at > TRUST_NS || !somebody_runs();
    }
    return came_back;
}

int
ia_nobody_is_loose(void)
{
    return known ? !others() && all_came_back() : is_only_thread();
}

/* A destructor that runs Python code may have left a pointer to what is gone
 * by then: intrusive_ptr::reset() clears it last. */
static int
somebody_deallocates(void)
{
    PyThreadState *thread =
        PyInterpreterState_ThreadHead(PyInterpreterState_Get());

    while (thread != NULL && !ia_is_deallocating(thread)) {
        thread = PyThreadState_Next(thread);
    }
    return thread != NULL;
}

static void
await_others(void)
{
    int64_t rest = taken_at + GRACE_NS - now_ns();

    if (rest > 0) {
        Py_BEGIN_ALLOW_THREADS
        nap(rest);
        Py_END_ALLOW_THREADS
    }
    int64_t end = now_ns() + PATIENCE_NS;
    while ((!ia_nobody_is_loose() || ia_pool_is_busy(0)) && now_ns() < end) {
        nap(NAP_NS);
    }
}

int
ia_world_stands_still(int patience)
{
    if (patience && known && (!is_only_thread() || ia_pool_is_busy(1))) {
        await_others();
    }
    return ia_nobody_is_loose() && !somebody_deallocates() &&
           !ia_pool_is_busy(patience);
}
