/* Blocks of memory of NumPy's arrays.
 *
 * The table of NumPy's own handler is written over in place: every thread uses
 * that one.  A handler that is set the documented way is a context variable,
 * and other threads don't see it; it is the way out where the table can't be
 * written.  An array keeps the table that its block came from, not the
 * functions: what is older than the watch is freed through ours, too.
 *
 * Ours hand on to those that stood there first, for good: somebody who wrapped
 * ours still calls them after we have ended.  Each entry is right beside any
 * other, so that a thread may see a half-written table.
 */

#include "../base/compat.h"
#include "../base/device_name.h"
#include "../base/ndarray.h"
#include "../base/thread.h"
#include "arrays.h"
#include "ledger.h"

#define PY_ARRAY_UNIQUE_SYMBOL impactarbiter_ARRAY_API
#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
/* The first with handlers; what runs is asked before they are used. */
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

#include <stdatomic.h>
#include <unistd.h>

static PyDataMemAllocator original; /* malloc NULL before the first watch */
static atomic_int births, deaths;   /* are reported */
static PyObject *before; /* owned: the handler that ours took the place of */
static IA_OF_THREAD int own, reached; /* is it ours? what came meanwhile */

/* -- what stands in the table --------------------------------------------- */

static inline int
counts(size_t bytes, atomic_int *reported)
{
    return bytes >= IA_LEAST_ARRAY &&
           atomic_load_explicit(reported, memory_order_relaxed);
}

static void
note_birth(void *block, size_t bytes)
{
    if (own)
        reached = 1;
    else if (block != NULL)
        ia_ledger_born((uintptr_t)block, bytes, IA_DEVICE_NUMPY);
}

static void *
array_malloc(void *ctx, size_t bytes)
{
    void *block = original.malloc(ctx, bytes);
    if (counts(bytes, &births))
        note_birth(block, bytes);
    return block;
}

static void *
array_calloc(void *ctx, size_t count, size_t each)
{
    void *block = original.calloc(ctx, count, each);
    /* There is a block: the product is no overflow. */
    if (block != NULL && counts(count * each, &births))
        note_birth(block, count * each);
    return block;
}

/* First the ledger: once given back, another thread may get the same address
 * and report its birth before this death.  argsort() frees a buffer of so many
 * bytes that it never had. */
static void
array_free(void *ctx, void *block, size_t bytes)
{
    if (block != NULL && counts(bytes, &deaths))
        ia_ledger_died((uintptr_t)block);
    original.free(ctx, block, bytes);
}

/* A block of another size or place is a new one, of the line that made it so,
 * and the old one ends after it has begun: an array that is made longer is
 * never gone.  Meanwhile the old one goes by a key that no block has, for
 * another thread may get its address. */
static void *
array_realloc(void *ctx, void *block, size_t bytes)
{
    uintptr_t old = (uintptr_t)block, aside = old + 1;
    size_t had = atomic_load_explicit(&deaths, memory_order_relaxed)
                     ? ia_ledger_set_aside(old, aside)
                     : 0;
    void *made = original.realloc(ctx, block, bytes);
    if (had && (made == NULL || (made == block && bytes == had))) {
        ia_ledger_renamed(aside, old);
        return made;
    }
    if (counts(bytes, &births))
        note_birth(made, bytes);
    if (had)
        ia_ledger_died(aside);
    return made;
}

/* -- the table ------------------------------------------------------------ */

static PyDataMem_Handler own_handler = {
    "impactarbiter",
    1,
    {NULL, array_malloc, array_calloc, array_realloc, array_free}};

/* NumPy's own; NULL where it has none, none that we know, or where nobody has
 * imported NumPy. */
static PyDataMemAllocator *
find_table(void)
{
    if (!ia_ndarray_is_bound() ||
        PyArray_GetNDArrayCFeatureVersion() < NPY_1_22_API_VERSION)
        return NULL;
    PyDataMem_Handler *handler =
        PyCapsule_GetPointer(PyDataMem_DefaultHandler, "mem_handler");
    if (handler == NULL)
        PyErr_Clear();
    return handler != NULL && handler->version == 1 ? &handler->allocator
                                                    : NULL;
}

static int
is_same(const PyDataMemAllocator *a, const PyDataMemAllocator *b)
{
    return a->malloc == b->malloc && a->calloc == b->calloc &&
           a->realloc == b->realloc && a->free == b->free;
}

static void
write_table(PyDataMemAllocator *table, const PyDataMemAllocator *from)
{
    __atomic_store_n(&table->free, from->free, __ATOMIC_RELEASE);
    __atomic_store_n(&table->realloc, from->realloc, __ATOMIC_RELEASE);
    __atomic_store_n(&table->calloc, from->calloc, __ATOMIC_RELEASE);
    __atomic_store_n(&table->malloc, from->malloc, __ATOMIC_RELEASE);
}

/* The kernel writes there what is there, and fails where we would crash. */
static int
is_writable(PyDataMemAllocator *table)
{
    int ends[2], works = 0;
    if (pipe(ends) < 0)
        return 0;
    if (write(ends[1], table, sizeof *table) == (ssize_t)sizeof *table)
        works = read(ends[0], table, sizeof *table) == (ssize_t)sizeof *table;
    close(ends[0]);
    close(ends[1]);
    return works;
}

void
ia_arrays_set_own(int on)
{
    if (on)
        reached = 0;
    own = on;
}

/* Does what this table allocates come to us? */
static int
leads_here(const PyDataMemAllocator *table)
{
    ia_arrays_set_own(1);
    void *block = table->malloc(table->ctx, IA_LEAST_ARRAY);
    if (block != NULL)
        table->free(table->ctx, block, IA_LEAST_ARRAY);
    ia_arrays_set_own(0);
    return reached;
}

/* Somebody who has wrapped ours still calls them: taking theirs for the
 * original would make a circle. */
static int
stand_in(PyDataMemAllocator *table)
{
    if (is_same(table, &original) && is_writable(table))
        write_table(table, &own_handler.allocator);
    return leads_here(table);
}

static int
set_handler(void)
{
    PyObject *ours = PyCapsule_New(&own_handler, "mem_handler", NULL);
    if (ours == NULL)
        return -1;
    own_handler.allocator.ctx = original.ctx;
    before = PyDataMem_SetHandler(ours);
    Py_DECREF(ours);
    return before == NULL ? -1 : 1;
}

int
ia_arrays_install(int in_place)
{
    PyDataMemAllocator *table = find_table();
    if (table == NULL)
        return 0;
    if (original.malloc == NULL)
        original = *table;
    births = deaths = 1;
    if ((in_place && stand_in(table)) || before != NULL)
        return 1;
    int result = is_same(table, &original) ? set_handler() : 0;
    if (result <= 0)
        births = deaths = 0;
    return result;
}

/* 0, or -1 with an exception set. */
static int
give_handler_back(void)
{
    PyObject *now = PyDataMem_GetHandler(), *was = NULL;
    if (now == NULL)
        return -1;
    if (PyCapsule_GetPointer(now, "mem_handler") == &own_handler)
        was = PyDataMem_SetHandler(before);
    Py_DECREF(now);
    Py_XDECREF(was);
    Py_CLEAR(before);
    return PyErr_Occurred() ? -1 : 0;
}

int
ia_arrays_uninstall(void)
{
    PyDataMemAllocator *table = find_table();
    births = deaths = 0;
    if (table != NULL && is_same(table, &own_handler.allocator))
        write_table(table, &original);
    ia_ledger_forget_arrays();
    return before != NULL ? give_handler_back() : 0;
}

void
ia_arrays_silence(void)
{
    births = 0;
}

int
ia_arrays_installed(void)
{
    PyDataMemAllocator *table = find_table();
    return births && table != NULL &&
           (before != NULL || is_same(table, &own_handler.allocator));
}
