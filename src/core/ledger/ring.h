/* The last births and deaths, in a ring of a fixed size; off by default.
 *
 * Everything expects the ledger's lock to be held.
 */
#ifndef IA_RING_H
#define IA_RING_H

#include "../base/columns.h"
#include "book.h"

typedef enum {
    IA_RING_BIRTH = 1,
    IA_RING_DEATH,
    IA_RING_MARK, /* a bundle was written: bytes are those asked for */
    IA_RING_KINDS
} ia_ring_kind;

/* A row of events.npy; nanoseconds of the monotonic clock, exact to some
 * milliseconds. */
#define IA_RING_COLUMNS(C)                                                   \
    C(u8, nanoseconds)                                                       \
    C(u8, address)                                                           \
    C(u8, bytes)                                                             \
    C(u4, site)                                                              \
    C(u4, step)                                                              \
    C(u2, device)                                                            \
    C(u2, phase)                                                             \
    C(u4, kind)

typedef struct {
    IA_RING_COLUMNS(IA_ROW_FIELD)
} ia_ring_event;

extern int ia_ring_on;

/* The memory is the caller's, of `capacity` events, until ia_ring_detach. */
void ia_ring_attach(ia_ring_event *memory, uint32_t capacity);
void ia_ring_detach(void);

void ia_ring_note(ia_ring_kind, const ia_row *);
void ia_ring_mark(uint16_t device, uint64_t asked);
/* For a sweep: the sites of all events. */
void ia_ring_mark_sites(void);
/* Copies them, oldest first; returns how many, and in *all how many there
 * ever were. */
uint32_t ia_ring_copy(ia_ring_event *out, uint64_t *all);

#endif /* IA_RING_H */
