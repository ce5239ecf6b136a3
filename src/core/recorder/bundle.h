/* A bundle: a folder that says what was alive when memory ran out.
 *
 * Written with system calls alone, from memory that was there before: nothing
 * here allocates, needs the GIL or takes a lock.  A folder under its final
 * name is whole: it is written beside, synced, then renamed.
 *
 *   recorder.json  what happened, totals, the sites' source positions
 *   events.npy     the last births and deaths, oldest first (ia_ring_event)
 *   sites.npy      what is alive by site (ia_site_row)
 */
#ifndef IA_BUNDLE_H
#define IA_BUNDLE_H

#include "../ledger/ledger.h"
#include "../ledger/ring.h"
#include "../ledger/sites.h"

#define IA_BUNDLE_NAME 64
#define IA_BUNDLE_REASON 200

#define IA_BUNDLE_SCHEMA "impactarbiter-bundle/1"

/* A row of sites.npy. */
#define IA_SITE_COLUMNS(C)                                                   \
    C(u8, live_bytes)                                                        \
    C(u8, born_bytes)                                                        \
    C(u4, site)                                                              \
    C(u4, live_count)                                                        \
    C(u4, born_count)                                                        \
    C(u4, collected)                                                         \
    C(u4, first_step)                                                        \
    C(u4, last_step)

typedef struct {
    IA_SITE_COLUMNS(IA_ROW_FIELD)
} ia_site_row;

/* All borrowed. */
typedef struct {
    char reason[IA_BUNDLE_REASON];
    uint16_t device;
    uint64_t asked;
    uint64_t resident;
    ia_ledger_totals totals;
    ia_device_totals devices[IA_MAX_DEVICES];
    int ndevices;
    const ia_ring_event *events;
    uint32_t nevents;
    uint64_t all_events;
    const ia_site_row *sites;
    const ia_source_frame *sources; /* of the sites, in their order */
    uint32_t nsites;
    uint32_t left_out; /* sites that there was no room for */
} ia_bundle;

/* 0, or an errno; a failure leaves nothing behind where it can. */
int ia_bundle_write(const ia_bundle *, int folder, const char *name);
/* Removes a bundle, first under its final name, so that no half of it is
 * ever seen there. */
void ia_bundle_remove(int folder, const char *name);

#endif /* IA_BUNDLE_H */
