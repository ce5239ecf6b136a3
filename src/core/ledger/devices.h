/* Devices whose allocator reports to us: their blocks, and the ledger's rows
 * of what is allocated on them.
 *
 * Events come under the allocator's own lock, from any thread, often without
 * the GIL.  The ledger's lock guards what is here.  It is a leaf: between
 * ia_ledger_lock() and ia_ledger_unlock() nothing is called but malloc and
 * reads of memory, so it can't be waited for by anybody who waits for us.
 */
#ifndef IA_DEVICES_H
#define IA_DEVICES_H

#include "blocks.h"

/* One event of a device's allocator; nothing for a device that is not
 * followed. */
void ia_devices_event(const ia_device_event *);
/* Is every block of this device's allocator reported to us? */
int ia_devices_followed(uint16_t device);
/* Forgets all devices. */
void ia_devices_reset(void);
/* In bytes; takes the lock. */
size_t ia_devices_bytes(void);

/* A device that has reported.  `blocks` is NULL, and nothing is accounted for,
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

#endif /* IA_DEVICES_H */
