/* The ledger's blocks, handed to the search for their owners. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/build.h"
#include "../base/errors.h"
#include "../base/kinds.h"
#include "../ledger/journal.h"
#include "../ledger/samples.h"
#include "../ledger/sites.h"
#include "../heap/wrappers.h"
#include "../native/loaded.h"
#include "../native/owners.h"
#include "../native/symbols.h"
#include "../native/unwind.h"
#include "native.h"

#include <stdlib.h>
#include <string.h>

/* Smaller blocks lie among what holds addresses. */
#define LARGE 1024

typedef struct {
    ia_block *items; /* owned */
    uint32_t count, capacity;
} blocks;

/* Who has a block has its beginning. */
static const size_t BEGINNING = 1;

static int
add(blocks *b, uintptr_t begin, size_t size)
{
    if (IA_ROOM(b->items, b->capacity, b->count + 1) < 0)
        return -1;
    b->items[b->count++] = (ia_block){begin, size};
    return 0;
}

static int
by_address(const void *a, const void *b)
{
    uintptr_t x = ((const ia_block *)a)->begin;
    uintptr_t y = ((const ia_block *)b)->begin;
    return (x > y) - (x < y);
}

/* A block of a line, in the order of births. */
typedef struct {
    uintptr_t key;
    uint32_t generation;
} birth;

static int
by_birth(const void *a, const void *b)
{
    uint32_t x = ((const birth *)a)->generation;
    uint32_t y = ((const birth *)b)->generation;
    return (x > y) - (x < y);
}

typedef struct {
    birth *items; /* owned */
    uint32_t count, capacity;
} births;

/* All large blocks, and those of the site; 0 or -1. */
static int
read_ledger(uint64_t site, blocks *numbers, births *of_site)
{
    uint32_t rows;
    int bad = 0;
    ia_ledger_lock();
    const ia_row *row = ia_ledger_rows(&rows);
    for (uint32_t i = 0; i < rows && !bad; i++) {
        if (row[i].key == 0)
            continue;
        if (row[i].bytes >= LARGE)
            bad = add(numbers, row[i].key, row[i].bytes) < 0;
        if (bad || site == 0 || row[i].array || row[i].allowed ||
            ia_site_number(ia_stack_site(row[i].stack)) != site)
            continue;
        bad = IA_ROOM(of_site->items, of_site->capacity,
                      of_site->count + 1) < 0;
        if (!bad)
            of_site->items[of_site->count++] =
                (birth){row[i].key, row[i].generation};
    }
    ia_ledger_unlock();
    return bad ? -1 : 0;
}

/* Of those that are chosen, so many are the newest: in a chain each is one
 * step further from its end. */
#define NEWEST (IA_MOST_BLOCKS / 2)

/* The newest, and some from the oldest on. */
static uint32_t
choose(births *b, ia_block *chosen)
{
    uint32_t count = b->count < IA_MOST_BLOCKS ? b->count : IA_MOST_BLOCKS;
    uint32_t apart = count < IA_MOST_BLOCKS ? 0 : count - NEWEST;
    if (b->count > 1)
        qsort(b->items, b->count, sizeof *b->items, by_birth);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = i < apart ? (uint64_t)i * (b->count - NEWEST) / apart
                                : b->count - (count - i);
        chosen[i] = (ia_block){b->items[at].key, BEGINNING};
    }
    return count;
}

/* A Python object stands for itself, a variable has two names. */
static PyObject *
build_owner(const ia_owner *one, const ia_wrappers *w, uint32_t count)
{
    if (one->body != IA_NO_BODY)
        return Py_BuildValue("(OOII)", (PyObject *)w->bodies[one->body].begin,
                             Py_None, one->blocks, count);
    return Py_BuildValue("(NNII)", ia_str(one->library), ia_str(one->symbol),
                         one->blocks, count);
}

/* An empty list, or NULL with an exception. */
static PyObject *
begin_list(int found)
{
    if (found >= 0)
        return PyList_New(0);
    if (found != IA_UNREAD)
        return PyErr_NoMemory();
    PyErr_SetString(PyExc_OSError, "not all of the process's memory was read");
    return NULL;
}

static PyObject *
find(const ia_block *chosen, uint32_t count, blocks *numbers)
{
    ia_owner owners[IA_MOST_OWNERS];
    ia_wrappers wrappers;
    int collecting = PyGC_Disable(); /* wrappers stay until they are told */
    memset(owners, 0, sizeof owners);
    if (numbers->count > 1)
        qsort(numbers->items, numbers->count, sizeof *numbers->items,
              by_address);
    int found = ia_wrappers_find(&wrappers);
    if (found == 0)
        found = ia_owners_find(
            &(ia_unowned){chosen, count, numbers->items, numbers->count,
                          wrappers.bodies, wrappers.count},
            owners);
    PyObject *list = begin_list(found);
    for (int i = 0; list && i < found; i++)
        ia_list_add(&list, build_owner(&owners[i], &wrappers, count));
    ia_wrappers_free(&wrappers);
    if (collecting)
        PyGC_Enable();
    return list;
}

PyObject *
ia_native_of_site(uint64_t site)
{
    blocks numbers = {0};
    births of_site = {0};
    ia_block chosen[IA_MOST_BLOCKS];
    PyObject *list = read_ledger(site, &numbers, &of_site) < 0
                         ? PyErr_NoMemory()
                         : find(chosen, choose(&of_site, chosen), &numbers);
    free(numbers.items);
    free(of_site.items);
    return list;
}

PyObject *
ia_native_of_object(PyObject *op)
{
    ia_storage s = {0};
    blocks numbers = {0};
    births none = {0};
    ia_kinds_forget();
    if (ia_the_framework == NULL ||
        ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &s))
        return PyList_New(0);
    ia_block one = {s.data ? s.data : s.impl, BEGINNING};
    PyObject *list = read_ledger(0, &numbers, &none) < 0
                         ? PyErr_NoMemory()
                         : find(&one, one.begin != 0, &numbers);
    free(numbers.items);
    return list;
}

/* -- who made them ---------------------------------------------------------- */

/* Calls of a stack that are told. */
#define MOST_CALLS 48
#define NAME 256

static PyObject *
build_call(uintptr_t address)
{
    char name[NAME];
    ia_segment library;
    if (!ia_loaded_library(address, &library))
        return NULL;
    PyObject *symbol = ia_symbol_name(&library, address, name, sizeof name)
                           ? ia_str(name)
                           : Py_NewRef(Py_None);
    PyObject *call =
        Py_BuildValue("(NN)", PyUnicode_DecodeFSDefault(library.path), symbol);
    free(library.path);
    return call;
}

typedef struct {
    uintptr_t at[MOST_CALLS];
    uint32_t count;
} calls;

static int
are_same(const calls *a, const calls *b)
{
    return a->count == b->count &&
           memcmp(a->at, b->at, a->count * sizeof *a->at) == 0;
}

/* Of several the one that the most are like; the first of those. */
static const calls *
most_common(const calls *stacks, uint32_t count)
{
    const calls *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t like = 0;
        for (uint32_t j = i; j < count; j++)
            like += (uint32_t)are_same(&stacks[i], &stacks[j]);
        if (like > most) {
            most = like;
            best = &stacks[i];
        }
    }
    return best;
}

static PyObject *
build_calls(const calls *stack)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && stack && i < stack->count; i++) {
        PyObject *call = build_call(stack->at[i]);
        if (call == NULL && !PyErr_Occurred())
            break; /* unloaded meanwhile */
        ia_list_add(&list, call);
    }
    return list;
}

PyObject *
ia_native_calls_of_site(uint64_t site)
{
    calls stacks[IA_SITE_SAMPLES];
    ia_dump *dumps = malloc(IA_SITE_SAMPLES * sizeof *dumps);
    if (dumps == NULL)
        return PyErr_NoMemory();
    ia_ledger_lock();
    uint32_t count = ia_samples_of(site, dumps);
    ia_ledger_unlock();
    for (uint32_t i = 0; i < count; i++)
        stacks[i].count = ia_unwind(&dumps[i], stacks[i].at, MOST_CALLS);
    free(dumps);
    return build_calls(most_common(stacks, count));
}
