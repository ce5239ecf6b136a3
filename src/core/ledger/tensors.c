/* Live Python tensors that were born while we watched. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/kinds.h"
#include "../base/ptrmap.h"
#include "ledger.h"
#include "sites.h"
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

/* Pending addresses kept before the dead ones are sifted out. */
#define SIFT_AT ((uint32_t)1 << 16)

typedef struct {
    PyObject *op; /* borrowed address; NULL = free entry */
    ia_birth birth;
    uint32_t next_free;
    uint32_t pending;
} entry;

static struct {
    entry *items;
    uint32_t count, capacity, free_entry;
    ia_ptrmap index;
    PyObject **pending; /* owned array of addresses; may name dead ones */
    uint32_t npending, pending_capacity;
} book = {.free_entry = UINT32_MAX};

/* Where most tensors live and die: those of the last births, by a hash of the
 * address.  What is in another's way, and what is alive when somebody asks,
 * enters the book. */
#define YOUNG 256
#define WORDS (YOUNG / 64)

static struct {
    struct {
        PyObject *op; /* borrowed address */
        ia_birth birth;
    } items[YOUNG];
    uint64_t used[WORDS]; /* a bit for each */
} young;

void
ia_tensors_reset(void)
{
    memset(young.used, 0, sizeof young.used);
    free(book.items);
    free(book.pending);
    ia_ptrmap_free(&book.index);
    memset(&book, 0, sizeof book);
    book.free_entry = UINT32_MAX;
}

static uint32_t
take_entry(void)
{
    uint32_t i = book.free_entry;
    if (i != UINT32_MAX) {
        book.free_entry = book.items[i].next_free;
        return i;
    }
    if (IA_ROOM(book.items, book.capacity, book.count + 1) < 0)
        return UINT32_MAX;
    return book.count++;
}

static void
give_entry(uint32_t i)
{
    book.items[i] = (entry){.next_free = book.free_entry};
    book.free_entry = i;
}

static int
is_pending(PyObject *op)
{
    uint32_t i = ia_ptrmap_get(&book.index, (uintptr_t)op);
    return i != IA_PTRMAP_NONE && book.items[i].pending;
}

static void
sift_pending(void)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < book.npending; i++)
        if (is_pending(book.pending[i]))
            book.pending[kept++] = book.pending[i];
    book.npending = kept;
}

static int
add_pending(PyObject *op)
{
    if (book.npending == book.pending_capacity && book.npending >= SIFT_AT)
        sift_pending();
    if (IA_ROOM(book.pending, book.pending_capacity, book.npending + 1) < 0)
        return -1;
    book.pending[book.npending++] = op;
    return 0;
}

static void
leave_book(PyObject *op)
{
    uint32_t i = ia_ptrmap_pop(&book.index, (uintptr_t)op);
    if (i != IA_PTRMAP_NONE)
        give_entry(i);
}

static void
enter_book(PyObject *op, const ia_birth *birth)
{
    uint32_t i = take_entry();
    if (i == UINT32_MAX)
        return;
    if (ia_ptrmap_set(&book.index, (uintptr_t)op, i) < 0 ||
        add_pending(op) < 0) {
        ia_ptrmap_pop(&book.index, (uintptr_t)op);
        give_entry(i);
        return;
    }
    book.items[i] = (entry){
        .op = op,
        .birth = *birth,
        .pending = 1,
    };
}

static inline uint32_t
young_slot(PyObject *op)
{
    uint64_t h = (uint64_t)(uintptr_t)op * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) % YOUNG;
}

static inline int
is_young(uint32_t slot)
{
    return (young.used[slot / 64] >> slot % 64 & 1) != 0;
}

/* All that are young enter the book. */
static void
grow_up(void)
{
    for (int w = 0; w < WORDS; w++)
        for (; young.used[w] != 0; young.used[w] &= young.used[w] - 1) {
            int slot = 64 * w + __builtin_ctzll(young.used[w]);
            enter_book(young.items[slot].op, &young.items[slot].birth);
        }
}

void
ia_tensors_born(PyObject *op)
{
    ia_birth birth = ia_ledger_birth();
    uint32_t i = young_slot(op);
    if (ia_ptrmap_has(&book.index, (uintptr_t)op))
        leave_book(op); /* an address whose death was not seen */
    if (is_young(i) && young.items[i].op != op)
        enter_book(young.items[i].op, &young.items[i].birth);
    young.items[i].op = op;
    young.items[i].birth = birth;
    young.used[i / 64] |= UINT64_C(1) << i % 64;
}

void
ia_tensors_died(PyObject *op)
{
    uint32_t i = young_slot(op);
    if (is_young(i) && young.items[i].op == op)
        young.used[i / 64] &= ~(UINT64_C(1) << i % 64);
    else
        leave_book(op);
}

static int
in_ledger(const ia_storage *s)
{
    return ia_ledger_show(s->data, s->device) ||
           ia_ledger_show(s->impl, s->device);
}

static int
enter(const ia_storage *s, void *birth)
{
    if (s->bytes == 0 || in_ledger(s))
        return 0;
    ia_ledger_born_at(s->impl, s->bytes, s->device, birth);
    return 1;
}

/* 0, or -1 where its time has not come: another thread is changing it.  The
 * birth is a copy: a framework that adopts may let another thread in. */
static int
resolve(PyObject *op, ia_birth birth)
{
    ia_storage s;
    if (ia_the_framework->adopt != NULL &&
        ia_the_framework->adopt(op, enter, &birth))
        return 0;
    if (!ia_the_framework->storage_of(op, &s) || s.bytes == 0 ||
        s.impl == 0 || in_ledger(&s))
        return 0;
    int follows = ia_the_framework->follow_storage(op);
    if (follows > 0)
        ia_ledger_born_at(s.impl, s.bytes, s.device, &birth);
    return follows < 0 ? -1 : 0;
}

/* Not where it has died meanwhile. */
static int
put_back(PyObject *op)
{
    uint32_t i = ia_ptrmap_get(&book.index, (uintptr_t)op);
    if (i == IA_PTRMAP_NONE)
        return 0;
    book.items[i].pending = 1;
    return 1;
}

void
ia_tensors_resolve(void)
{
    uint32_t kept = 0;
    grow_up();
    for (uint32_t i = 0; ia_the_framework && i < book.npending; i++) {
        PyObject *op = book.pending[i];
        uint32_t at = ia_ptrmap_get(&book.index, (uintptr_t)op);
        if (at == IA_PTRMAP_NONE || !book.items[at].pending)
            continue;
        book.items[at].pending = 0;
        if (resolve(op, book.items[at].birth) < 0 && put_back(op))
            book.pending[kept++] = op;
    }
    /* Another thread may have emptied the book. */
    if (kept < book.npending)
        book.npending = kept;
}

ia_newest_tensor *
ia_tensors_newest(uint32_t nsites)
{
    ia_newest_tensor *newest = calloc(nsites + 1, sizeof *newest);
    grow_up();
    for (uint32_t i = 0; newest != NULL && i < book.count; i++) {
        const entry *e = &book.items[i];
        if (e->op == NULL || ia_the_framework->grad_fn_of(e->op) == NULL)
            continue;
        ia_ledger_lock();
        uint32_t site = ia_stack_site(e->birth.stack);
        ia_ledger_unlock();
        if (site < nsites && (newest[site].op == NULL ||
                              e->birth.generation >= newest[site].generation))
            newest[site] = (ia_newest_tensor){e->op, e->birth.generation};
    }
    return newest;
}

PyObject *
ia_tensors_next(uint32_t *at)
{
    if (*at == 0)
        grow_up();
    while (*at < book.count) {
        PyObject *op = book.items[(*at)++].op;
        if (op != NULL)
            return op;
    }
    return NULL;
}

void
ia_tensors_mark_stacks(void)
{
    grow_up();
    for (uint32_t i = 0; i < book.count; i++)
        ia_stack_mark(book.items[i].birth.stack);
}

uint32_t
ia_tensors_count(void)
{
    grow_up();
    return (uint32_t)book.index.used;
}

size_t
ia_tensors_bytes(void)
{
    return book.capacity * sizeof *book.items +
           book.pending_capacity * sizeof *book.pending +
           ia_ptrmap_bytes(&book.index);
}
