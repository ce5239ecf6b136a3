/* The pace of turns, compared with what it was. */

#include "pace.h"

/* What a program loads before its work, or makes, it does in a loop as well,
 * and in turns that are over in no time.  Where the later half of the time so
 * far has brought less than a SLOWER part of the turns, the others were such,
 * unless the processor has worked less for them, too: then the program has
 * waited, or stood still with its machine.
 * Asked FIRST seconds after time began, when twice as long have passed, and so
 * on. */
#define SLOWER 8
#define FIRST 0.125
/* And what comes of a loop after the work, as to print what it has made, is no
 * more time than FASTER times as many turns as there were so far in as long,
 * but for FREE_TURNS: the first have no pace. */
#define FASTER 4
#define FREE_TURNS 16

static struct {
    double from, next; /* when time began; when halves are compared; 0: never */
    uint32_t halfway;  /* position half of the time until `next` ago */
    double begun, half; /* seconds of the processor, at `from` and `halfway` */
    double last;       /* when the last turns came */
    double left;       /* turns that they fell short of the most by */
} pace;

void
ia_pace_reset(void)
{
    pace.next = 0;
}

/* Have later turns taken so much longer than those before, and more work? */
static int
has_slowed(double later, double work)
{
    double before = pace.halfway, took = pace.half - pace.begun;
    return later * SLOWER < before &&
           later * SLOWER * took < before * (work - pace.half);
}

int
ia_pace_is_due(double now)
{
    return pace.next == 0 || now >= pace.next;
}

int
ia_pace_begins(uint32_t position, double now, double work)
{
    if (pace.next != 0 && !has_slowed(position - pace.halfway, work)) {
        pace.next += pace.next - pace.from;
        pace.halfway = position;
        pace.half = work;
        return 0;
    }
    pace.begun = pace.half = work;
    pace.from = pace.last = now;
    pace.next = now + FIRST;
    pace.halfway = 0;
    pace.left = FREE_TURNS;
    return 1;
}

/* Both halves were compared once, the first of which was not empty. */
int
ia_pace_is_known(void)
{
    return pace.next - pace.from > 2 * FIRST;
}

uint32_t
ia_pace_keep(uint32_t turns, uint32_t position, double now)
{
    double so_far = pace.last - pace.from, took = now - pace.last;
    double most = pace.left;
    if (so_far > 0)
        most += FASTER * position * (took / so_far);
    if (turns > most)
        turns = (uint32_t)most;
    pace.last = now;
    pace.left = most - turns < FREE_TURNS ? most - turns : FREE_TURNS;
    return turns;
}
