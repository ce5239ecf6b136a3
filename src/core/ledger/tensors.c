/* Live Python tensors that were born while we watched. */

#include "../base/compat.h"
#include "../base/bitmap.h"
#include "../steps/criterion.h"
#include "../heap/walk.h"
#include "ledger.h"
#include "../base/ptrmap.h"
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
    uint64_t sequence[2]; /* of the nodes at the last two boundaries */
} book = {.free_entry = UINT32_MAX};

void
ia_tensors_reset(void)
{
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
    if (book.count == book.capacity) {
        uint32_t bigger = book.capacity ? book.capacity * 2 : 256;
        entry *moved = realloc(book.items, bigger * sizeof *moved);
        if (moved == NULL)
            return UINT32_MAX;
        book.items = moved;
        book.capacity = bigger;
    }
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
    if (book.npending == book.pending_capacity) {
        if (book.npending >= SIFT_AT)
            sift_pending();
        uint32_t bigger = book.npending * 2 + 256;
        PyObject **moved = realloc(book.pending, bigger * sizeof *moved);
        if (moved == NULL)
            return -1;
        book.pending = moved;
        book.pending_capacity = bigger;
    }
    book.pending[book.npending++] = op;
    return 0;
}

void
ia_tensors_born(PyObject *op)
{
    ia_birth birth = ia_ledger_birth();
    ia_tensors_died(op); /* an address whose death was not seen */
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
        .birth = birth,
        .pending = 1,
    };
}

void
ia_tensors_died(PyObject *op)
{
    uint32_t i = ia_ptrmap_pop(&book.index, (uintptr_t)op);
    if (i != IA_PTRMAP_NONE)
        give_entry(i);
}

static int
in_ledger(const ia_storage *s)
{
    ia_ledger_lock();
    int found = ia_ledger_find(s->data) || ia_ledger_find(s->impl);
    ia_ledger_unlock();
    return found;
}

static void
resolve(entry *e)
{
    ia_storage s;
    e->pending = 0;
    if (!ia_the_framework->storage_of(e->op, &s) || s.bytes == 0 ||
        s.impl == 0 || in_ledger(&s))
        return;
    if (ia_the_framework->follow_storage(e->op))
        ia_ledger_born_at(s.impl, s.bytes, s.device, &e->birth);
}

void
ia_tensors_resolve(void)
{
    for (uint32_t i = 0; ia_the_framework && i < book.npending; i++) {
        uint32_t at =
            ia_ptrmap_get(&book.index, (uintptr_t)book.pending[i]);
        if (at != IA_PTRMAP_NONE && book.items[at].pending)
            resolve(&book.items[at]);
    }
    book.npending = 0;
}

void
ia_tensors_end_step(void)
{
    if (ia_the_framework == NULL)
        return;
    book.sequence[0] = book.sequence[1];
    book.sequence[1] = ia_the_framework->sequence_now();
}

/* -- graphs -------------------------------------------------------------- */

typedef struct {
    ia_sink sink;
    ia_bitmap *seen;
    void **stack; /* owned */
    uint32_t depth, capacity;
    int failed;
    uint64_t nodes;
    uint64_t oldest; /* sequence number */
} probe;

static int
probe_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
           Py_ssize_t index)
{
    probe *p = (probe *)sink;
    (void)kind, (void)name, (void)index;
    if (node == NULL || ia_bitmap_mark(p->seen, (uintptr_t)node))
        return 0;
    if (p->depth == p->capacity) {
        uint32_t bigger = p->capacity ? p->capacity * 2 : 1024;
        void **moved = realloc(p->stack, bigger * sizeof *moved);
        if (moved == NULL) {
            p->failed = 1;
            return 1;
        }
        p->stack = moved;
        p->capacity = bigger;
    }
    p->stack[p->depth++] = node;
    return 0;
}

/* Looks at the nodes reachable from `root`, up to `budget`. */
static void
probe_graph(probe *p, void *root, uint64_t budget)
{
    *p = (probe){
        .sink = {NULL, probe_node, NULL},
        .seen = ia_bitmap_new(),
        .oldest = UINT64_MAX,
    };
    p->failed = p->seen == NULL;
    if (!p->failed)
        probe_node(&p->sink, root, IA_EDGE_GRAD_FN, NULL, -1);
    while (p->depth > 0 && p->nodes < budget && !p->failed) {
        void *node = p->stack[--p->depth];
        uint64_t sequence = ia_the_framework->node_sequence(node);
        if (sequence < p->oldest)
            p->oldest = sequence;
        ia_the_framework->next_nodes(node, &p->sink);
        p->nodes++;
    }
    ia_bitmap_free(p->seen);
    free(p->stack);
}

/* Index of the site's newest tensor with a graph, per site; calloc'd. */
static uint32_t *
newest_by_site(uint32_t nsites)
{
    uint32_t *newest = calloc(nsites + 1, sizeof *newest);
    for (uint32_t i = 0; newest != NULL && i < book.count; i++) {
        const entry *e = &book.items[i];
        if (e->op == NULL || ia_the_framework->grad_fn_of(e->op) == NULL)
            continue;
        ia_ledger_lock();
        uint32_t site = ia_stack_site(e->birth.stack);
        ia_ledger_unlock();
        if (site < nsites &&
            (newest[site] == 0 ||
             e->birth.generation >=
                 book.items[newest[site] - 1].birth.generation))
            newest[site] = i + 1;
    }
    return newest;
}

void
ia_tensors_probe_graphs(uint32_t step, uint64_t budget)
{
    if (ia_the_framework == NULL || !ia_the_framework->walk_begin())
        return;
    ia_ledger_lock();
    uint32_t nsites = ia_ledger_sites();
    ia_ledger_unlock();
    uint32_t *newest = newest_by_site(nsites);
    for (uint32_t i = 0; newest != NULL && i < nsites && budget > 0; i++) {
        if (newest[i] == 0)
            continue;
        void *root =
            ia_the_framework->grad_fn_of(book.items[newest[i] - 1].op);
        probe p;
        probe_graph(&p, root, budget);
        if (p.failed)
            break;
        budget -= p.nodes;
        /* A larger model makes a larger graph; only one that reaches back
         * over steps is kept for ever. */
        if (p.oldest >= book.sequence[0])
            continue;
        ia_ledger_lock();
        ia_criterion_note_graph(i, p.nodes, step);
        ia_ledger_unlock();
    }
    ia_the_framework->walk_end();
    free(newest);
}

uint32_t
ia_tensors_count(void)
{
    return (uint32_t)book.index.used;
}

size_t
ia_tensors_bytes(void)
{
    return book.capacity * sizeof *book.items +
           book.pending_capacity * sizeof *book.pending +
           ia_ptrmap_bytes(&book.index);
}
