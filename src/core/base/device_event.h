/* What the caching allocator of a device reports, as plain data. */
#ifndef IA_DEVICE_EVENT_H
#define IA_DEVICE_EVENT_H

#include "columns.h"

typedef enum {
    IA_DEVICE_ALLOC = 0,
    IA_DEVICE_FREE_REQUESTED, /* no owner any more */
    IA_DEVICE_FREE_COMPLETED, /* may be used anew: no stream needs it */
    IA_DEVICE_SEGMENT_ALLOC,
    IA_DEVICE_SEGMENT_FREE,
    IA_DEVICE_SEGMENT_MAP, /* an expandable segment grew here */
    IA_DEVICE_SEGMENT_UNMAP,
    IA_DEVICE_OOM, /* address: bytes that the driver had left */
    /* Not events, but lines of a snapshot: blocks older than the watch, in
     * the order of their addresses, each after its segment. */
    IA_DEVICE_KNOWN_ALLOCATED,
    IA_DEVICE_KNOWN_PENDING,
    IA_DEVICE_KNOWN_FREE,
    IA_DEVICE_ACTIONS
} ia_device_action;

/* bytes: asked for, not rounded; a segment's own.  block: size of the block
 * where it is known, else 0.  pool: 0 for the common one.  device: device
 * type << 8 | device index. */
#define IA_DEVICE_COLUMNS(C)                                                 \
    C(u8, address)                                                           \
    C(u8, bytes)                                                             \
    C(u8, block)                                                             \
    C(u8, stream)                                                            \
    C(u8, pool)                                                              \
    C(u4, device)                                                            \
    C(u4, action)

typedef struct {
    IA_DEVICE_COLUMNS(IA_ROW_FIELD)
} ia_device_event;

#endif /* IA_DEVICE_EVENT_H */
