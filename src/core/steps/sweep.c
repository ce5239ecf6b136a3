/* Sweeps stacks and sites: who marks what. */

#include "../ledger/birthplace.h"
#include "../ledger/journal.h"
#include "../ledger/intervals.h"
#include "../ledger/ring.h"
#include "../ledger/sites.h"
#include "../ledger/tensors.h"
#include "criterion.h"
#include "curves.h"
#include "sweep.h"

#include <stdlib.h>

static void
mark_all(void)
{
    ia_book_mark_stacks();
    ia_intervals_mark_stacks();
    ia_places_mark_stacks();
    ia_tensors_mark_stacks();
    ia_ring_mark_sites();
}

static void
forget(uint32_t site)
{
    ia_book_forget_site(site);
    ia_criterion_forget_site(site);
    ia_curves_forget_site(site);
}

/* -- idle sites ------------------------------------------------------------ */

/* Tick of its last birth or death. */
static uint32_t
last_seen(uint32_t site)
{
    const ia_site_totals *totals = ia_ledger_site(site);
    return totals == NULL ? 0 : totals->touched;
}

static int
newest_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Half of them go at a time.  Memory that is short keeps none. */
static void
mark_newest_idle(void)
{
    uint32_t n = 0, oldest = 0, count = ia_site_count();
    uint32_t *seen = malloc(count * sizeof *seen);
    for (uint32_t i = 1; seen != NULL && i < count; i++)
        if (ia_site_is_idle(i))
            seen[n++] = last_seen(i);
    if (n > IA_IDLE_SITES) {
        qsort(seen, n, sizeof *seen, newest_first);
        oldest = seen[IA_IDLE_SITES / 2];
    }
    for (uint32_t i = 1; seen != NULL && i < count; i++)
        if (ia_site_is_idle(i) &&
            (n <= IA_IDLE_SITES || last_seen(i) > oldest))
            ia_site_mark(i);
    free(seen);
}

void
ia_sweep(void)
{
    if (!ia_stacks_sweep_is_due())
        return;
    ia_ledger_lock();
    if (!ia_stacks_are_pinned()) {
        mark_all();
        ia_stacks_sweep();
        mark_newest_idle();
        ia_sites_sweep(forget);
    }
    ia_ledger_unlock();
}
