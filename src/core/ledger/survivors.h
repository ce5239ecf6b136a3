/* Who survives, by time of birth: constant work per birth and death.
 *
 * Thirty-two buckets of one width count a site's live storages by the position
 * at which they were born.  When a run outgrows them, pairs are merged and the
 * width doubles: the question "does every stretch of the run leave survivors?"
 * is asked on the scale of the run so far, never on one chosen beforehand.
 * Beside them the least that was alive in each bucket's time, in storages and
 * in bytes, and the longest lifetime that ever ended: what is older than
 * twice that is not waiting for its turn.
 *
 * The ledger's lock is held for all of these.
 */
#ifndef IA_SURVIVORS_H
#define IA_SURVIVORS_H

#include <stdint.h>

#define IA_BUCKETS 32

typedef struct {
    uint32_t born[IA_BUCKETS]; /* live storages, by bucket of their birth */
    uint32_t low[IA_BUCKETS];  /* least live storages while it was current */
    float low_bytes[IA_BUCKETS]; /* least live bytes then */
    uint32_t base;    /* position of the first bucket's begin */
    uint32_t current; /* bucket that the last event fell into */
    uint32_t life;    /* longest lifetime that ended, in positions */
    uint8_t shift;    /* buckets are 1 << shift positions wide */
    uint8_t turned;   /* another bucket is current since the last check */
    uint8_t begun;
} ia_survivors;

/* Positions before `base` count for nothing: the warm-up. */
void ia_survivors_reset(ia_survivors *, uint32_t base);
/* Makes the bucket of `now` current; `count` and `bytes` are alive. */
void ia_survivors_advance(ia_survivors *, uint32_t now, uint32_t count,
                          uint64_t bytes);

/* A storage born at `position`. */
static inline void
ia_survivors_born(ia_survivors *s, uint32_t position)
{
    uint32_t bucket = (position - s->base) >> s->shift;
    if (position >= s->base && bucket < IA_BUCKETS)
        s->born[bucket]++;
}

/* What is alive after a death at `now`. */
static inline void
ia_survivors_left(ia_survivors *s, uint32_t now, uint32_t count,
                  uint64_t bytes)
{
    if (!s->begun || now < s->base)
        return;
    if (count < s->low[s->current])
        s->low[s->current] = count;
    if ((float)bytes < s->low_bytes[s->current])
        s->low_bytes[s->current] = (float)bytes;
}

/* One born at `position` died at `now`.  `ended` is 0 where the collector
 * freed it: that it waited for the collector says nothing of the program's own
 * turns. */
static inline void
ia_survivors_died(ia_survivors *s, uint32_t position, uint32_t now, int ended)
{
    if (position < s->base)
        return;
    uint32_t bucket = (position - s->base) >> s->shift;
    if (bucket < IA_BUCKETS && s->born[bucket] > 0)
        s->born[bucket]--;
    if (ended && now - position > s->life)
        s->life = now - position;
}

static inline uint32_t
ia_survivors_begin(const ia_survivors *s, uint32_t bucket)
{
    return s->base + (bucket << s->shift);
}

#endif /* IA_SURVIVORS_H */
