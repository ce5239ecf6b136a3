#include "../base/compat.h"
#include "garbage.h"

/* Twice the longest time between two runs is overdue, as with what a line
 * makes. */
#define OVERDUE 2

/* Ticks: of the newest run, and between two, or before the first, at most. */
typedef struct {
    uint32_t last, longest;
} rhythm;

/* Of runs through what is young, which all are, and through all. */
static rhythm young, all;

/* What the clocks showed at the newest run. */
static uint32_t shown[IA_CLOCKS];

static void
beat(rhythm *r, uint32_t tick)
{
    if (tick - r->last > r->longest)
        r->longest = tick - r->last;
    r->last = tick;
}

static int
is_kept(const rhythm *r, uint32_t tick)
{
    return tick - r->last <= OVERDUE * r->longest;
}

void
ia_garbage_start(void)
{
    young = all = (rhythm){0};
    shown[IA_BY_POSITION] = shown[IA_BY_TICK] = 0;
}

void
ia_garbage_collected(int whole, uint32_t position, uint32_t tick)
{
    beat(&young, tick);
    if (whole)
        beat(&all, tick);
    shown[IA_BY_POSITION] = position;
    shown[IA_BY_TICK] = tick;
}

int
ia_garbage_freed_from(uint32_t tick, ia_clock clock, uint32_t *from)
{
    if (PyGC_IsEnabled() || is_kept(&all, tick)) {
        *from = 0;
        return 1;
    }
    *from = shown[clock];
    return is_kept(&young, tick);
}
