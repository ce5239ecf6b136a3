/* xorshift64*: the same numbers everywhere. */
#ifndef IA_TEST_RANDOM_H
#define IA_TEST_RANDOM_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static inline uint64_t
random_number(uint64_t below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return ((random_state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) % below;
}

#endif /* IA_TEST_RANDOM_H */
