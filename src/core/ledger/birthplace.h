/* Where a storage is born: the calling thread's Python frames or, on a
 * backward's thread, which has none, the autograd node that runs there.
 *
 * A node is tied to the forward line that made it by the numbers that the
 * framework gives its nodes, in a table of the last IA_NODES_KNOWN of them.
 */
#ifndef IA_BIRTHPLACE_H
#define IA_BIRTHPLACE_H

#include "../base/core_api.h"
#include "sites.h"

#include <stdatomic.h>

/* 24 bytes each, and only where a device is followed: on the CPU a backward
 * runs below the frames that called it. */
#define IA_NODES_KNOWN ((uint32_t)1 << 16)

typedef struct {
    ia_raw_stack *raw; /* borrowed: the calling thread's */
    ia_node_mark node; /* name NULL where no node runs */
    ia_node_mark next; /* to be made here; thread 0 while none is followed */
} ia_place;

/* Needs neither GIL nor lock, and calls nothing that takes one. */
void ia_place_capture(ia_place *);
/* The next node of this thread alone: 0 where nodes aren't followed. */
int ia_place_next(ia_node_mark *);

/* The rest expects the ledger's lock to be held. */
uint32_t ia_place_intern(const ia_place *);
/* Whether nodes are followed: starts and ends with an empty table. */
void ia_places_follow_nodes(int on);
extern atomic_int ia_places_following; /* nodes; for those without the lock */
static inline int
ia_places_follows_nodes(void)
{
    return atomic_load_explicit(&ia_places_following, memory_order_relaxed);
}
/* The nodes made on this thread since its last call, up to the next one, are
 * of this stack. */
void ia_places_note_nodes(const ia_node_mark *next, uint32_t stack);
/* This stack calls backward(): for nodes whose line isn't known. */
void ia_places_note_backward(uint32_t stack);
/* For a sweep. */
void ia_places_mark_stacks(void);
size_t ia_places_bytes(void);

#endif /* IA_BIRTHPLACE_H */
