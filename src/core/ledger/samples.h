/* Native stacks of births at lines whose storages nothing in Python leads to.
 *
 * Such lines are named by a walk; of what they bear from then on some stacks
 * are kept as they lie, with the block, and are read when somebody asks
 * (native/unwind.h).  Those of blocks that have died since are given up: a line
 * makes more than it keeps.
 *
 * Every function expects the ledger's lock to be held.
 */
#ifndef IA_SAMPLES_H
#define IA_SAMPLES_H

#include "../native/dump.h"

#include <stdint.h>

/* Lines at a time, and stacks of each. */
#define IA_SAMPLED_SITES 8
#define IA_SITE_SAMPLES 4

/* Is some line's births' stacks asked for? */
extern int ia_samples_on;

/* Of these lines, by number, from now on; what others have is kept as long as
 * there is room. */
void ia_samples_want(const uint64_t *sites, uint32_t count);
/* One was born at a site: takes its stack where that is asked for. */
void ia_samples_born(uintptr_t key, uint32_t site);
/* Copies those of a line's living blocks: how many there are. */
uint32_t ia_samples_of(uint64_t site, ia_dump out[IA_SITE_SAMPLES]);
void ia_samples_reset(void);
size_t ia_samples_bytes(void);

#endif /* IA_SAMPLES_H */
