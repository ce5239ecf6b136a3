/* Sites: the user's lines, by number and by what they are. */

#include "../base/array.h"
#include "../base/ptrmap.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t hash;
    uint32_t frame; /* held source; IA_NO_SOURCE = free */
    uint32_t serial; /* how often this id was given out before */
    uint32_t next_free;
    uint8_t marked;
} site;

static struct {
    site *items; /* owned; 0 is IA_NO_SITE */
    uint32_t count, capacity, free;
    ia_ptrmap of_hash;
} table;

int
ia_sites_init(void)
{
    if (table.count > 0)
        return 0;
    if (IA_CLEAR_ROOM(table.items, table.capacity, 1) < 0)
        return -1;
    table.count = 1;
    return 0;
}

/* A free id, whose number was never used, or IA_NO_SITE. */
static uint32_t
take_site(void)
{
    uint32_t i = table.free;
    if (i != 0) {
        table.free = table.items[i].next_free;
        return i;
    }
    if (IA_CLEAR_ROOM(table.items, table.capacity, table.count + 1) < 0)
        return IA_NO_SITE;
    return table.count++;
}

/* One whose numbers are used up is not given out any more. */
static void
give_site(uint32_t i)
{
    uint32_t serial = table.items[i].serial + 1;
    table.items[i] = (site){.serial = serial, .next_free = table.free};
    if (serial != 0)
        table.free = i;
}

uint32_t
ia_site_of_source(uint32_t frame)
{
    uint64_t hash = ia_source_hash(frame);
    uint32_t i = ia_ptrmap_get(&table.of_hash, hash);
    if (i != IA_PTRMAP_NONE)
        return i;
    i = take_site();
    if (i == IA_NO_SITE)
        return IA_NO_SITE;
    if (ia_ptrmap_set(&table.of_hash, hash, i) < 0) {
        give_site(i);
        return IA_NO_SITE;
    }
    ia_source_hold(frame);
    table.items[i].hash = hash;
    table.items[i].frame = frame;
    return i;
}

static void
drop_site(uint32_t i)
{
    ia_ptrmap_pop(&table.of_hash, table.items[i].hash);
    ia_source_release(table.items[i].frame);
    give_site(i);
}

const ia_source_frame *
ia_site_source(uint32_t site)
{
    uint32_t frame = table.items[site].frame;
    return frame == IA_NO_SOURCE ? NULL : ia_source_get(frame);
}

uint32_t
ia_site_count(void)
{
    return table.count;
}

uint64_t
ia_site_number(uint32_t site)
{
    return (uint64_t)table.items[site].serial << 32 | site;
}

uint32_t
ia_site_of_number(uint64_t number)
{
    uint32_t i = (uint32_t)number;
    if (number == IA_NO_SITE)
        return IA_NO_SITE;
    return i < table.count && table.items[i].serial == number >> 32 &&
                   table.items[i].frame != IA_NO_SOURCE
               ? i
               : IA_DROPPED;
}

void
ia_site_mark(uint32_t site)
{
    table.items[site].marked = 1;
}

int
ia_site_is_idle(uint32_t site)
{
    return table.items[site].frame != IA_NO_SOURCE &&
           !table.items[site].marked;
}

void
ia_sites_sweep(void (*forget)(uint32_t site))
{
    for (uint32_t i = 1; i < table.count; i++) {
        if (ia_site_is_idle(i)) {
            forget(i);
            drop_site(i);
        }
        table.items[i].marked = 0;
    }
}

size_t
ia_sites_bytes(void)
{
    return table.capacity * sizeof *table.items +
           ia_ptrmap_bytes(&table.of_hash);
}
