/* What devices.c shows of itself to device_view.c, which talks Python. */
#ifndef IA_DEVICE_VIEW_H
#define IA_DEVICE_VIEW_H

#include "../ledger/blocks.h"

/* A device that was heard of.  `blocks` is NULL, and nothing is accounted for,
 * until it is known what was there before. */
typedef struct {
    uint16_t device;
    uint64_t seen;     /* events, followed or not */
    ia_blocks *blocks; /* owned */
} ia_followed;

/* Takes the lock.  Starts to account for a device of which nothing but this
 * snapshot is alive: 1, or 0 where more or fewer events than `seen` came
 * before (the snapshot is stale), or -1 when memory is short. */
int ia_devices_follow(uint16_t device, const ia_device_event *snapshot,
                      size_t count, uint64_t seen);
/* Under the lock. */
int ia_devices_all(const ia_followed **);
void ia_devices_set_rules(const ia_block_rules *);

#endif /* IA_DEVICE_VIEW_H */
