/* Some native stacks of some lines' births. */

#include "book.h"
#include "samples.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

/* Stacks that are taken between two walks at most: what a line makes and lets
 * go at once takes one each. */
#define MOST_TAKEN 1024

typedef struct {
    uint64_t site; /* number; 0: free */
    uintptr_t key;
    uint32_t generation;
    ia_dump dump;
} sample;

static struct {
    uint64_t sites[IA_SAMPLED_SITES];
    uint32_t nsites;
    uint32_t taken;
    sample *items; /* owned, IA_SITE_SAMPLES for each site; NULL: never asked */
} all;

int ia_samples_on;

#define NITEMS ((size_t)IA_SAMPLED_SITES * IA_SITE_SAMPLES)

static int
place_of(uint64_t site)
{
    for (uint32_t i = 0; i < all.nsites; i++)
        if (all.sites[i] == site)
            return (int)i;
    return -1;
}

void
ia_samples_want(const uint64_t *sites, uint32_t count)
{
    if (all.items == NULL && count > 0)
        all.items = calloc(NITEMS, sizeof *all.items);
    if (all.items == NULL)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (all.nsites < IA_SAMPLED_SITES && place_of(sites[i]) < 0)
            all.sites[all.nsites++] = sites[i];
    all.taken = 0;
    ia_samples_on = all.nsites > 0;
}

/* Is it the block whose birth was seen? */
static int
is_alive(const sample *s)
{
    const ia_row *row = s->site ? ia_ledger_find(s->key) : NULL;
    return row != NULL && row->generation == s->generation && !row->allowed &&
           ia_site_number(ia_stack_site(row->stack)) == s->site;
}

static sample *
room_for(int place, uintptr_t key)
{
    sample *first = &all.items[(size_t)place * IA_SITE_SAMPLES], *room = NULL;
    for (sample *s = first; s < first + IA_SITE_SAMPLES; s++) {
        if (s->site != 0 && s->key == key)
            return s; /* of the block that lay there before */
        if (room == NULL && !is_alive(s))
            room = s;
    }
    return room;
}

void
ia_samples_born(uintptr_t key, uint32_t site)
{
    uint64_t number = ia_site_number(site);
    int place = place_of(number);
    sample *s = place < 0 ? NULL : room_for(place, key);
    if (s == NULL)
        return;
    s->site = 0;
    if (all.taken == MOST_TAKEN)
        return;
    all.taken++;
    s->site = number;
    s->key = key;
    s->generation = ia_ledger_totals_now()->generation;
    ia_dump_take(&s->dump);
}

uint32_t
ia_samples_of(uint64_t site, ia_dump out[IA_SITE_SAMPLES])
{
    int place = place_of(site);
    uint32_t count = 0;
    for (uint32_t i = 0; place >= 0 && i < IA_SITE_SAMPLES; i++) {
        const sample *s = &all.items[(size_t)place * IA_SITE_SAMPLES + i];
        if (is_alive(s))
            out[count++] = s->dump;
    }
    return count;
}

void
ia_samples_reset(void)
{
    free(all.items);
    memset(&all, 0, sizeof all);
    ia_samples_on = 0;
}

size_t
ia_samples_bytes(void)
{
    return all.items == NULL ? 0 : NITEMS * sizeof *all.items;
}
