/* Results side by side. */

#include "../base/compat.h"
#include "../base/read.h"
#include "parting.h"
#include "peers.h"

#include <stdlib.h>
#include <string.h>

/* Containers of more items than this are no states. */
#define MAX_PEERS 64

typedef struct {
    PyObject *results[MAX_PEERS]; /* tensors that a graph leads to */
    uint32_t count;
} peers;

static int
list_peer(PyObject *op, void *arg)
{
    peers *p = arg;
    if (op != NULL && p->count < MAX_PEERS &&
        ia_kind_of(Py_TYPE(op)) == IA_KIND_TENSOR &&
        ia_the_framework->grad_fn_of(op) != NULL)
        p->results[p->count++] = op;
    return 0;
}

/* The results in a small container of more than one; else none. */
static void
find_peers(const ia_walk *w, uint32_t entry, peers *p)
{
    p->count = 0;
    if (!ia_entry_is_container(w, entry))
        return;
    PyObject *op = (PyObject *)w->queue[entry].ref;
    if (ia_container_length(op) <= MAX_PEERS && Py_TYPE(op)->tp_traverse)
        Py_TYPE(op)->tp_traverse(op, list_peer, p);
    if (p->count < 2)
        p->count = 0;
}

/* A result in a container that is a variable of the same namespace. */
static uintptr_t
key_beside(uint32_t namespace, PyObject *op)
{
    return (uintptr_t)op + namespace * UINT64_C(0x9E3779B97F4A7C15);
}

static int
list_beside(const ia_walk *w, ia_peers_memo *memo)
{
    peers p;
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t up = w->queue[i].parent;
        if (up == IA_NO_ENTRY || w->queue[up].parent != IA_NO_ENTRY)
            continue;
        find_peers(w, i, &p);
        for (uint32_t n = 0; n < p.count; n++) {
            uintptr_t key = key_beside(up, p.results[n]);
            if (ia_ptrmap_get(&memo->beside, key) == IA_PTRMAP_NONE &&
                ia_ptrmap_set(&memo->beside, key, i) < 0)
                return -1;
        }
    }
    return 0;
}

uint32_t
ia_with_peers(const ia_walk *w, uint32_t entry, ia_peers_memo *memo)
{
    peers p;
    uint32_t up = w->queue[entry].parent;
    PyObject *op = (PyObject *)w->queue[entry].ref;
    if (up == IA_NO_ENTRY || IA_TAG(w->queue[entry].ref) != IA_TAG_OBJECT ||
        ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR)
        return entry;
    find_peers(w, up, &p);
    for (uint32_t n = 0; n < p.count; n++)
        if (p.results[n] == op)
            return up;
    if (w->queue[up].parent != IA_NO_ENTRY)
        return entry;
    if (!memo->listed)
        memo->listed = list_beside(w, memo) == 0;
    uint32_t beside = ia_ptrmap_get(&memo->beside, key_beside(up, op));
    return beside != IA_PTRMAP_NONE && w->queue[beside].parent == up ? beside
                                                                     : entry;
}
