/* What would be freed if references were cut: a walk without them. */
#ifndef IA_RETAINED_H
#define IA_RETAINED_H

#include "../heap/roots.h"
#include "ways.h"

/* Nodes of one kind that a cut would free. */
typedef struct {
    char name[64];
    uint64_t count;
    uint64_t bytes; /* of the tensors they saved */
} ia_node_cost;

#define IA_BIGGEST_NODES 5

/* What a cut would free, of what was asked for, on one device. */
typedef struct {
    uint16_t device;
    uint64_t bytes;
} ia_device_cost;

/* A machine rarely has more for one process; the rest is not told apart. */
#define IA_MOST_COSTS 16

typedef struct {
    uint64_t bytes;
    uint64_t storages;
    uint64_t nodes;
    uint64_t node_bytes;  /* of the nodes themselves: no storages */
    uint64_t saved;       /* storages that graph nodes hold */
    uint64_t saved_bytes;
    uint64_t items;       /* of containers that are emptied: that lead on, */
    uint64_t freed_items; /* and that nothing else has */
    int contended;   /* it leads to nodes that another group leads to, too */
    int with_alike;  /* of all that differ by an index: see alike.h */
    ia_node_cost biggest[IA_BIGGEST_NODES];
    int nbiggest;
    ia_device_cost on[IA_MOST_COSTS];
    int non;
} ia_cost;

/* So many bytes more on that device. */
void ia_cost_add_on(ia_cost *, uint16_t device, uint64_t bytes);

#define IA_MAX_CUT_GROUPS 64

/* Measures `groups` sets of cuts against a finished walk: costs[g] is what
 * making the cuts of group g alone would free.  A storage that two groups
 * would free (one inside the other) counts for the first.  Tensors that hang
 * on one graph, which nothing else keeps, go together: together[g] is the
 * first group of those that g goes with, where it is asked for.  What lies on
 * the ways to the holders is measured besides, where `ways` is not NULL.  The
 * list of cuts is reordered.  0, or -1 when memory is short. */
int ia_cuts_measure(const ia_walk *full, ia_cut *cuts, uint32_t count,
                    uint32_t groups, ia_cost *costs, uint32_t *together,
                    ia_ways *ways);

#endif /* IA_RETAINED_H */
