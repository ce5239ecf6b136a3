/* The blocks of one device, as a caching allocator keeps them: segments got
 * from the driver, cut into blocks that are allocated, pending (freed, but
 * still in use by another stream) or free.
 *
 * Rebuilt from the allocator's events.  They tell the bytes that were asked
 * for, not the block's size; that follows from the free block it was cut from
 * and from the allocator's rules, which are written down in blocks.c.
 *
 * Plain C without Python: tests/native runs it alone under the sanitizers.
 */
#ifndef IA_BLOCKS_H
#define IA_BLOCKS_H

#include "../base/device_event.h"

#include <stddef.h>
#include <stdint.h>

#define IA_DIVISIONS 16
/* Streams told apart on one device; all others share the last entry. */
#define IA_MAX_STREAMS 32

/* How the allocator was configured. */
typedef struct {
    uint64_t max_split;               /* larger blocks are never cut */
    uint32_t divisions[IA_DIVISIONS]; /* roundup_power2_divisions, or 0 */
} ia_block_rules;

extern const ia_block_rules ia_default_block_rules;

typedef struct {
    uint64_t stream;
    uint64_t allocated_bytes;
    uint64_t pending_bytes;
    uint64_t reserved_bytes;
} ia_stream_totals;

/* What torch.cuda.memory_stats() calls allocated_bytes, requested_bytes and
 * reserved_bytes are exactly these. */
typedef struct {
    uint64_t allocated_bytes;
    uint64_t peak_allocated_bytes;
    uint64_t requested_bytes; /* allocated and pending ones, unrounded */
    uint64_t pending_bytes;
    uint64_t reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint64_t mapped_bytes;  /* of the reserved: in expandable segments */
    uint64_t private_bytes; /* of the reserved: in pools of graphs and users */
    uint64_t events;
    uint64_t ooms;
    uint64_t drift; /* events that did not fit what was known */
    uint32_t allocated_count;
    uint32_t pending_count;
    uint32_t segments; /* expandable ones not counted */
} ia_block_totals;

/* Memory that lies ready; the first as torch.cuda.memory_stats() has it. */
typedef struct {
    uint64_t inactive_split_bytes; /* in segments that are in use */
    uint64_t largest;              /* in one piece */
} ia_free_space;

typedef struct ia_blocks ia_blocks;

ia_blocks *ia_blocks_new(void); /* NULL when memory is short */
void ia_blocks_free(ia_blocks *);

/* Takes in one event: its block's bytes for an allocation that was made and
 * for a free that was requested, else 0.  Memory that gets short breaks the
 * model for good, which ia_blocks_broken() tells. */
uint64_t ia_blocks_apply(ia_blocks *, const ia_device_event *,
                         const ia_block_rules *);
int ia_blocks_broken(const ia_blocks *);

const ia_block_totals *ia_blocks_totals(const ia_blocks *);
/* Returns how many entries there are. */
int ia_blocks_streams(const ia_blocks *, const ia_stream_totals **);
/* Looks at every block. */
ia_free_space ia_blocks_free_space(const ia_blocks *);
size_t ia_blocks_bytes(const ia_blocks *);
/* Do totals and links agree with the blocks?  Slow. */
int ia_blocks_consistent(const ia_blocks *);

#endif /* IA_BLOCKS_H */
