/* What a diagnosis has found, and the answer that is made of it. */
#ifndef IA_FOUND_H
#define IA_FOUND_H

#include "../heap/crossings.h"
#include "../heap/walk.h"
#include "../heap/weigh.h"
#include "../holders/holders.h"
#include "../holders/parting.h"
#include "needed.h"

typedef struct {
    ia_wanted wanted;
    ia_walk w;
    ia_crossings crossings;
    ia_storages storages;
    ia_roots roots;
    ia_groups groups;
    ia_holders holders;
    ia_cost *costs;
    ia_needed *needed; /* owned; by holder: who reads its example */
    uint8_t *shared; /* owned; by holder: others hold the same */
    uint32_t *together; /* owned; by holder: the first on its graph */
    uint32_t *older; /* owned; by holder: items of before the watch */
    uint32_t *doubles; /* owned; by holder: others that hold the same */
    uint64_t *missed; /* owned; by site: bytes that a near walk did not meet */
    int still; /* what walk_begin said */
    int remember; /* paths, so that they can be visited */
    int near; /* what libraries' modules hold need not be asked */
    int all;  /* no site is asked for: all that is alive is */
    int measures_ways;
    ia_ways ways; /* to the holders, where they are measured */
    ia_tally tally; /* of what is in the heap, where it is asked for */
    double seconds;
} ia_diagnosis;

/* In Python's objects; new reference, NULL with an exception.  It may append to
 * the walk: what stands beside the ways that it took gets one of its own. */
PyObject *ia_diagnosis_build(ia_diagnosis *d);

#endif /* IA_FOUND_H */
