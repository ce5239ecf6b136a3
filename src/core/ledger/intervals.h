/* Intervals: what was born, what died and what was alive at most in between.
 *
 * Several may be open at a time, nested or not, on any threads; each counts
 * the storages of one device.  Everything but ia_interval_open and
 * ia_interval_close expects the ledger's lock to be held.
 */
#ifndef IA_INTERVALS_H
#define IA_INTERVALS_H

#include <stdint.h>

#define IA_MAX_INTERVALS 64

typedef struct {
    uint64_t born_bytes;
    uint64_t died_bytes;
    uint64_t births;
    uint64_t deaths;
    uint64_t before_bytes; /* live when it was opened */
    uint64_t peak_bytes;   /* most that was live, at least before_bytes */
    uint64_t peak_number;  /* that of peak_stack, once it is closed */
    uint32_t peak_stack;   /* of the birth that made the peak, or 0 */
    uint32_t steps;        /* ended meanwhile; open: generation at the start */
    uint32_t serial;       /* 0: closed */
    uint16_t device;
} ia_interval;

/* How many are open: births and deaths look at this first. */
extern int ia_intervals_open;

void ia_intervals_born(uint16_t device, uint64_t bytes, uint32_t stack);
void ia_intervals_died(uint16_t device, uint64_t bytes);

/* For a sweep. */
void ia_intervals_mark_stacks(void);

/* Both take the lock.  A handle, or 0 when all intervals are in use. */
uint64_t ia_interval_open(uint16_t device);
/* 1 and *out filled, or 0 when the handle is of no open interval. */
int ia_interval_close(uint64_t handle, ia_interval *out);

#endif /* IA_INTERVALS_H */
