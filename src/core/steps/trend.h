/* Does the process grow beside its tensors?
 *
 * The least of what was read in each of thirty-two buckets of readings, which
 * double their width as survivors' do: what comes and goes within a bucket is
 * no growth.  All under the GIL.
 */
#ifndef IA_TREND_H
#define IA_TREND_H

#include <stdint.h>

#define IA_TREND_BUCKETS 32

typedef struct {
    uint64_t least[IA_TREND_BUCKETS];
    uint32_t readings;
    uint32_t current; /* bucket of the last reading */
    uint8_t shift;    /* buckets are 1 << shift readings wide */
    uint8_t rises;    /* it was seen to */
} ia_trend;

/* Takes in a reading; 1 where a rise by so much was just seen for the first
 * time. */
int ia_trend_note(ia_trend *, uint64_t bytes, uint64_t least_rise);

#endif /* IA_TREND_H */
