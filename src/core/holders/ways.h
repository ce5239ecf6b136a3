/* What the objects on the ways from the roots to the holders retain. */
#ifndef IA_WAYS_H
#define IA_WAYS_H

#include "../heap/walk.h"

/* Objects that one walk measures, of all ways together, and of one way: those
 * that are nearest to the holder.  Each doubling takes one pass more. */
#define IA_MOST_ON_WAYS 64
#define IA_MOST_ON_ONE_WAY 16
/* What measuring them may take beside the walk that tells what the holders'
 * cuts free: as many objects as this many walks look at. */
#define IA_WALKS_FOR_WAYS 2

typedef struct {
    uint32_t entry;
    uint64_t groups;     /* a bit for each holder on whose way it lies */
    uint64_t bytes;      /* of storages that nothing but it leads to */
    uint64_t node_bytes; /* of graph nodes, likewise */
    int measured;
} ia_waypoint;

typedef struct {
    ia_waypoint items[IA_MOST_ON_WAYS];
    uint32_t count;
    const ia_cut *aside; /* borrowed; made for as long as it is measured */
    uint32_t naside;
} ia_ways;

/* Takes up the objects between the root and a holder: from the entry that is
 * nearest to it, or IA_NO_ENTRY, upwards. */
void ia_ways_add(ia_ways *, const ia_walk *, uint32_t nearest,
                 uint32_t group);

/* Walks `base` from the roots with all cuts made, as ia_walk_from_roots does,
 * and measures the ways as it goes.  The cuts are ordered, their groups the
 * holders'.  `full` has gone everywhere.  0, or -1 when memory is short. */
int ia_ways_walk(ia_ways *, const ia_walk *full, ia_walk *base,
                 const ia_cut *cuts, uint32_t count);

/* The object of an entry on a holder's way; NULL where it was not measured. */
const ia_waypoint *ia_ways_at(const ia_ways *, uint32_t entry,
                              uint32_t group);

#endif /* IA_WAYS_H */
