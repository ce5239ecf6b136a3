/* The pace of turns, compared with what it was. */

#include "pace.h"

/* What a program loads before its work, or makes, it does in a loop as well,
 * and in turns that are over in no time.  Where the later half of the time so
 * far has brought less than a SLOWER part of the turns, the others were such.
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
    double last;       /* when the last turns came */
    double left;       /* turns that they fell short of the most by */
} pace;

void
ia_pace_reset(void)
{
    pace.next = 0;
}

int
ia_pace_begins(uint32_t position, double now)
{
    if (pace.next != 0 && now < pace.next)
        return 0;
    uint32_t before = pace.halfway, later = position - before;
    if (pace.next != 0 && later >= before / SLOWER) {
        pace.next += pace.next - pace.from;
        pace.halfway = position;
        return 0;
    }
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
