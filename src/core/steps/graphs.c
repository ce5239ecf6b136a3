/* Graphs that grow: how many nodes the newest tensor of each site keeps, and
 * what all of them take. */

#include "../base/array.h"
#include "../base/bitmap.h"
#include "../base/kinds.h"
#include "../base/ptrmap.h"
#include "../ledger/journal.h"
#include "../ledger/tensors.h"
#include "criterion.h"
#include "graphs.h"

#include <stdlib.h>

static uint64_t sequences[2]; /* of the nodes at the last two boundaries */
static uint64_t lost;

void
ia_graphs_reset(void)
{
    sequences[0] = sequences[1] = 0;
    lost = 0;
}

uint64_t
ia_graphs_lost(void)
{
    return lost;
}

void
ia_graphs_end_step(void)
{
    if (ia_the_framework == NULL)
        return;
    sequences[0] = sequences[1];
    sequences[1] = ia_the_framework->sequence_now();
}

typedef struct {
    ia_sink sink;
    int all;           /* graphs are gone through, and not one */
    ia_ptrmap seen;    /* most graphs are small: no bitmap is worth it */
    ia_bitmap *marked; /* owned: those of all; NULL until there is a node */
    void **pending; /* owned */
    uint32_t count, capacity;
    int failed;
    uint64_t nodes;
    uint64_t oldest; /* sequence number */
    uint64_t least;  /* nodes that are older are passed over */
} probe;

/* 1 where it was not met before, -1 when memory is short. */
static int
meet(probe *p, void *node)
{
    if (!p->all)
        return ia_ptrmap_add(&p->seen, (uintptr_t)node, 0);
    if (p->marked == NULL && (p->marked = ia_bitmap_new()) == NULL)
        return -1;
    int met = ia_bitmap_mark(p->marked, (uintptr_t)node);
    return p->marked->failed ? -1 : !met;
}

static int
probe_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
           Py_ssize_t index)
{
    probe *p = (probe *)sink;
    (void)kind, (void)name, (void)index;
    if (node == NULL)
        return 0;
    int is_new = meet(p, node);
    if (is_new == 0 ||
        (p->least > 0 && ia_the_framework->node_sequence(node) < p->least))
        return 0;
    if (is_new < 0 || IA_ROOM(p->pending, p->capacity, p->count + 1) < 0) {
        p->failed = 1;
        return 1;
    }
    p->pending[p->count++] = node;
    return 0;
}

/* Looks at the nodes reachable from `root`, up to `budget`. */
static void
probe_graph(probe *p, void *root, uint64_t budget)
{
    *p = (probe){
        .sink = {NULL, probe_node, NULL, NULL},
        .oldest = UINT64_MAX,
    };
    probe_node(&p->sink, root, IA_EDGE_GRAD_FN, NULL, -1);
    while (p->count > 0 && p->nodes < budget && !p->failed) {
        void *node = p->pending[--p->count];
        uint64_t sequence = ia_the_framework->node_sequence(node);
        if (sequence < p->oldest)
            p->oldest = sequence;
        ia_the_framework->next_nodes(node, &p->sink);
        p->nodes++;
    }
    ia_ptrmap_free(&p->seen);
    free(p->pending);
}

/* What a node was made from is older than it: only what is younger than the
 * one that is looked for can lead to it.  The nearest come first, for a value
 * is few nodes behind the one that was made from it, whatever else has gone
 * into that. */
int
ia_graphs_lead_back(void *root, void *node, uint64_t sequence, uint32_t budget)
{
    probe p = {.sink = {NULL, probe_node, NULL, NULL}, .least = sequence};
    int found = 0;
    uint32_t next = 0;
    probe_node(&p.sink, root, IA_EDGE_GRAD_FN, NULL, -1);
    while (next < p.count && next < budget && !p.failed && !found) {
        void *at = p.pending[next++];
        found = at == node && at != root &&
                ia_the_framework->node_sequence(at) == sequence;
        ia_the_framework->next_nodes(at, &p.sink);
    }
    int cut_short = p.failed || next < p.count;
    ia_ptrmap_free(&p.seen);
    free(p.pending);
    lost += p.failed && !found;
    return cut_short && !found ? -1 : found;
}

void
ia_graphs_probe(uint64_t budget)
{
    if (ia_the_framework == NULL)
        return;
    ia_ledger_lock();
    uint32_t nsites = ia_ledger_sites();
    ia_ledger_unlock();
    int still = ia_the_framework->walk_begin(0);
    ia_newest_tensor *newest = still ? ia_tensors_newest(nsites) : NULL;
    for (uint32_t i = 0; newest != NULL && i < nsites && budget > 0; i++) {
        if (newest[i].op == NULL)
            continue;
        void *root = ia_the_framework->grad_fn_of(newest[i].op);
        probe p;
        probe_graph(&p, root, budget);
        lost += p.failed != 0;
        if (p.failed)
            break;
        budget -= p.nodes;
        /* A larger model makes a larger graph; only one that reaches back
         * over steps is kept for ever. */
        if (p.oldest >= sequences[0])
            continue;
        ia_ledger_lock();
        ia_criterion_note_graph(i, p.nodes);
        ia_ledger_unlock();
    }
    ia_the_framework->walk_end();
    free(newest);
}

/* The nodes that are pending and what they lead to. */
static void
weigh_pending(probe *p, uint64_t budget, uint64_t *bytes)
{
    while (p->count > 0 && p->nodes <= budget && !p->failed) {
        void *node = p->pending[--p->count];
        *bytes += ia_the_framework->node_bytes(node);
        ia_the_framework->next_nodes(node, &p->sink);
        p->nodes++;
    }
}

int
ia_graphs_weigh(uint64_t budget, uint64_t *nodes, uint64_t *bytes)
{
    if (ia_the_framework == NULL || ia_the_framework->node_bytes == NULL)
        return 0;
    probe p = {.sink = {NULL, probe_node, NULL, NULL}, .all = 1};
    PyObject *op;
    uint32_t at = 0;
    *bytes = 0;
    p.failed = !ia_the_framework->walk_begin(0);
    while (!p.failed && p.nodes <= budget &&
           (op = ia_tensors_next(&at)) != NULL) {
        probe_node(&p.sink, ia_the_framework->grad_fn_of(op),
                   IA_EDGE_GRAD_FN, NULL, -1);
        weigh_pending(&p, budget, bytes);
    }
    ia_the_framework->walk_end();
    ia_bitmap_free(p.marked);
    free(p.pending);
    *nodes = p.nodes;
    return !p.failed && p.nodes <= budget;
}
