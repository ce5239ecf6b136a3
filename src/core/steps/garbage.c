#include "../base/compat.h"
#include "garbage.h"

/* Twice the longest time between two runs is overdue, as with what a line
 * makes. */
#define OVERDUE 2

typedef struct {
    uint32_t runs;
    uint32_t last, longest; /* ticks: of the newest run, and between two */
    uint32_t shown[IA_CLOCKS]; /* by the clocks at the newest run */
} rhythm;

/* Of runs through a generation at least: those through an older one go through
 * it, too.  Through the young ones, those that the program asked for. */
static rhythm through[IA_GENERATIONS];

static int asked_for; /* one came that did not come by itself */
static int runs_itself; /* when a tick ended last */

static void
beat(rhythm *r, uint32_t position, uint32_t tick)
{
    if (tick - r->last > r->longest)
        r->longest = tick - r->last;
    r->runs++;
    r->last = tick;
    r->shown[IA_BY_POSITION] = position;
    r->shown[IA_BY_TICK] = tick;
}

/* One run through what is young says of no other that it will come. */
static int
is_kept(int generation, uint32_t tick)
{
    const rhythm *r = &through[generation];
    return r->runs > (generation < IA_WHOLE) &&
           tick - r->last <= OVERDUE * r->longest;
}

void
ia_garbage_start(void)
{
    for (int g = 0; g < IA_GENERATIONS; g++)
        through[g] = (rhythm){0};
    asked_for = 0;
    runs_itself = 1;
}

void
ia_garbage_tick(void)
{
    runs_itself = PyGC_IsEnabled();
}

void
ia_garbage_collected(int generation, uint32_t position, uint32_t tick)
{
    int by_itself = runs_itself && PyGC_IsEnabled();
    asked_for |= !by_itself;
    if (generation < IA_WHOLE && by_itself)
        return; /* none comes any more when that is off */
    for (int g = 0; g <= generation; g++)
        beat(&through[g], position, tick);
}

void
ia_garbage_forget_positions(void)
{
    for (int g = 0; g < IA_GENERATIONS; g++)
        through[g].shown[IA_BY_POSITION] = 0;
}

int
ia_garbage_freed_from(uint32_t tick, ia_clock clock, uint32_t *from)
{
    *from = 0;
    if (PyGC_IsEnabled() || is_kept(IA_WHOLE, tick))
        return 1;
    for (int g = IA_WHOLE - 1; g >= 0; g--)
        if (is_kept(g, tick)) {
            *from = through[g].shown[clock];
            return 1;
        }
    return 0;
}

int
ia_garbage_was_asked_for(void)
{
    return asked_for;
}
