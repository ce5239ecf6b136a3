#include "../base/compat.h"
#include "garbage.h"

#include <string.h>

/* Twice the longest time between two runs is overdue, as with what a line
 * makes. */
#define OVERDUE 2

static struct {
    uint32_t runs;    /* that the program has asked for while it was off */
    uint32_t last;    /* tick of the newest */
    uint32_t longest; /* ticks between two, and before the first */
} asked;

void
ia_garbage_start(void)
{
    memset(&asked, 0, sizeof asked);
}

int
ia_garbage_collected(uint32_t tick, int goes_through_all)
{
    if (PyGC_IsEnabled()) {
        memset(&asked, 0, sizeof asked);
        asked.last = tick;
        return goes_through_all;
    }
    if (tick - asked.last > asked.longest)
        asked.longest = tick - asked.last;
    asked.last = tick;
    asked.runs++;
    return 1;
}

int
ia_garbage_goes(uint32_t tick)
{
    return PyGC_IsEnabled() ||
           (asked.runs > 0 && tick - asked.last <= OVERDUE * asked.longest);
}

int
ia_garbage_may_go(uint32_t tick)
{
    return asked.runs == 1 || ia_garbage_goes(tick);
}
