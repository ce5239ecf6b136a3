/* Which place recurs, and how often. */

#include "recurrence.h"
#include "journal.h"

#include <string.h>

/* Places that are remembered while one that recurs is sought: the last WAYS of
 * each of SETS, which a place's hash chooses.  A loop of that many places in
 * one set or fewer is found whatever they are; in one set of a program's some
 * hundred places there are so few. */
#define SETS 256
#define WAYS 4
/* The mark has fallen silent after so many times as many births as ever lay
 * between two of its own, until it had come half as often: one that comes ever
 * more rarely, as each key of a memo does, would slow time down with it. */
#define SILENT 8
/* Seconds between two times that somebody comes for turns: a boundary takes
 * some tenths of a microsecond, and a run of a second still has thousands. */
#define LEAST_PAUSE 0.0002
#define MOST_PAUSE 0.0008
#define MOST_STRIDE (UINT32_C(1) << 20)

struct ia_recurrence ia_the_recurrence;
static uint64_t remembered[SETS][WAYS]; /* the newest first */

void
ia_recurrence_follow(int (*tell)(void))
{
    struct ia_recurrence *r = &ia_the_recurrence;
    ia_journal_lock();
    r->tell = tell;
    r->mark = r->last = 0;
    r->in_a_row = r->gap = r->longest = r->turns = 0;
    r->usual = r->count = 0;
    r->stride = 1;
    r->waits_long = r->alone = 0;
    memset(remembered, 0, sizeof remembered);
    ia_ledger_unlock();
}

static void
begin_mark(struct ia_recurrence *r, uint64_t place)
{
    r->mark = place;
    r->alone = r->in_a_row >= IA_MOST_IN_A_ROW;
    r->gap = r->longest = r->usual = r->count = 0;
    r->turns++;
    memset(remembered, 0, sizeof remembered);
}

void
ia_recurrence_other(uint64_t place)
{
    struct ia_recurrence *r = &ia_the_recurrence;
    r->gap++;
    if (r->mark != 0 && r->gap / SILENT <= r->usual)
        return;
    uint64_t *known = remembered[(place >> 32) % SETS];
    for (int i = 0; i < WAYS; i++)
        if (known[i] == place) {
            begin_mark(r, place);
            return;
        }
    memmove(known + 1, known, (WAYS - 1) * sizeof *known);
    known[0] = place;
}

void
ia_recurrence_ask(void)
{
    struct ia_recurrence *r = &ia_the_recurrence;
    ia_journal_lock();
    int (*tell)(void) = r->asked ? NULL : r->tell;
    r->asked |= tell != NULL;
    ia_ledger_unlock();
    if (tell != NULL && tell() < 0)
        ia_recurrence_arrived();
}

void
ia_recurrence_pause(int on)
{
    ia_journal_lock();
    int *paused = &ia_the_recurrence.paused;
    if (on || *paused > 0) /* a child has begun anew in the middle of one */
        *paused += on ? 1 : -1;
    ia_ledger_unlock();
}

void
ia_recurrence_arrived(void)
{
    ia_journal_lock();
    ia_the_recurrence.asked = 0;
    ia_ledger_unlock();
}

void
ia_recurrence_after_fork(void)
{
    ia_journal_lock();
    ia_the_recurrence.asked = ia_the_recurrence.paused = 0;
    ia_ledger_unlock();
}

uint32_t
ia_recurrence_take(void)
{
    ia_journal_lock();
    uint32_t turns = ia_the_recurrence.turns;
    ia_the_recurrence.turns = 0;
    ia_the_recurrence.waits_long = 0;
    ia_ledger_unlock();
    return turns;
}

void
ia_recurrence_stride(double seconds)
{
    ia_journal_lock();
    uint32_t *stride = &ia_the_recurrence.stride;
    if (seconds < LEAST_PAUSE && *stride < MOST_STRIDE)
        *stride *= 2;
    else if (seconds > MOST_PAUSE && *stride > 1)
        *stride /= 2;
    ia_ledger_unlock();
}
