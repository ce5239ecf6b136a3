/* The clocks, as nanoseconds and as seconds. */
#ifndef IA_CLOCK_H
#define IA_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
ia_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double
ia_clock_seconds(clockid_t clock)
{
    return (double)ia_clock_ns(clock) * 1e-9;
}

/* Of the monotonic clock. */
static inline double
ia_seconds(void)
{
    return ia_clock_seconds(CLOCK_MONOTONIC);
}

#endif /* IA_CLOCK_H */
