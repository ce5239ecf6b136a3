/* Who survives, by time of birth. */

#include "survivors.h"

#include <string.h>

void
ia_survivors_reset(ia_survivors *s, uint32_t base)
{
    *s = (ia_survivors){.base = base};
}

static void
merge_pairs(ia_survivors *s)
{
    for (uint32_t i = 0; i < IA_BUCKETS / 2; i++) {
        uint32_t a = 2 * i, b = 2 * i + 1;
        s->born[i] = s->born[a] + s->born[b];
        /* Beyond the current bucket nothing was noted yet. */
        int second = b <= s->current;
        s->low[i] = second && s->low[b] < s->low[a] ? s->low[b] : s->low[a];
        s->low_bytes[i] = second && s->low_bytes[b] < s->low_bytes[a]
                              ? s->low_bytes[b]
                              : s->low_bytes[a];
    }
    memset(s->born + IA_BUCKETS / 2, 0, sizeof s->born / 2);
    s->current /= 2;
    s->shift++;
}

void
ia_survivors_advance(ia_survivors *s, uint32_t now, uint32_t count,
                     uint64_t bytes)
{
    if (now < s->base)
        return;
    uint32_t bucket = (now - s->base) >> s->shift;
    if (s->begun && bucket == s->current)
        return;
    while (bucket >= IA_BUCKETS) {
        merge_pairs(s);
        bucket = (now - s->base) >> s->shift;
    }
    for (uint32_t i = s->begun ? s->current + 1 : 0; i <= bucket; i++) {
        s->low[i] = count;
        s->low_bytes[i] = (float)bytes;
    }
    s->current = bucket;
    s->turned = s->begun = 1;
}
