#include "../base/compat.h"
#include "garbage.h"

/* Twice the longest time between two runs is overdue, as with what a line
 * makes. */
#define OVERDUE 2

/* Ticks: of the newest run, and between two, or before the first, at most. */
static uint32_t last, longest;

void
ia_garbage_start(void)
{
    last = longest = 0;
}

void
ia_garbage_collected(uint32_t tick)
{
    if (tick - last > longest)
        longest = tick - last;
    last = tick;
}

int
ia_garbage_goes(uint32_t tick)
{
    return PyGC_IsEnabled() || tick - last <= OVERDUE * longest;
}
