/* Does the process grow beside its tensors? */

#include "trend.h"

#include <stddef.h>

/* The run is divided into WINDOWS.  In the last RISING of them the minimum
 * must rise from each to the next: the first ones show what a program builds
 * up. */
#define WINDOWS 8
#define RISING 6

static void
merge_pairs(ia_trend *t)
{
    for (size_t i = 0; i < IA_TREND_BUCKETS / 2; i++) {
        uint64_t a = t->least[2 * i], b = t->least[2 * i + 1];
        t->least[i] = a < b ? a : b;
    }
    t->shift++;
}

/* Of the buckets that are full. */
static int
rises(const ia_trend *t, uint64_t least_rise)
{
    uint64_t before = 0, first = 0;
    if (t->current < WINDOWS)
        return 0;
    for (uint32_t w = WINDOWS - RISING; w < WINDOWS; w++) {
        uint32_t i = w * t->current / WINDOWS;
        uint32_t end = (w + 1) * t->current / WINDOWS;
        uint64_t least = t->least[i];
        while (++i < end)
            if (t->least[i] < least)
                least = t->least[i];
        if (w == WINDOWS - RISING)
            first = least;
        else if (least <= before)
            return 0;
        before = least;
    }
    return before - first >= least_rise;
}

int
ia_trend_note(ia_trend *t, uint64_t bytes, uint64_t least_rise)
{
    uint32_t bucket = t->readings++ >> t->shift;
    while (bucket >= IA_TREND_BUCKETS) {
        merge_pairs(t);
        bucket = (t->readings - 1) >> t->shift;
    }
    int begins = bucket != t->current || t->readings == 1;
    if (begins || bytes < t->least[bucket])
        t->least[bucket] = bytes;
    t->current = bucket;
    if (t->rises || !begins || !rises(t, least_rise))
        return 0;
    t->rises = 1;
    return 1;
}
