/* The ring of the last births and deaths. */

#include "../base/clock.h"
#include "ring.h"
#include "sites.h"

#include <string.h>

int ia_ring_on;

static struct {
    ia_ring_event *events; /* borrowed */
    uint32_t capacity;
    uint64_t all;
} ring;

void
ia_ring_attach(ia_ring_event *memory, uint32_t capacity)
{
    ring.events = memory;
    ring.capacity = capacity;
    ring.all = 0;
    ia_ring_on = 1;
}

void
ia_ring_detach(void)
{
    ia_ring_on = 0;
    ring.events = NULL;
    ring.capacity = 0;
    ring.all = 0;
}

static ia_ring_event *
next_event(void)
{
    ia_ring_event *e = &ring.events[ring.all++ % ring.capacity];
    /* The exact clock would cost as much as all the rest of a birth. */
    e->nanoseconds = ia_clock_ns(CLOCK_MONOTONIC_COARSE);
    e->step = ia_ledger_totals_now()->position;
    return e;
}

void
ia_ring_note(ia_ring_kind kind, const ia_row *row)
{
    ia_ring_event *e = next_event();
    e->address = row->key;
    e->bytes = row->bytes;
    e->site = ia_stack_site(row->stack);
    e->device = row->device;
    e->phase = row->phase;
    e->kind = kind;
}

void
ia_ring_mark(uint16_t device, uint64_t asked)
{
    ia_ring_event *e = next_event();
    e->address = 0;
    e->bytes = asked;
    e->site = IA_NO_SITE;
    e->device = device;
    e->phase = 0;
    e->kind = IA_RING_MARK;
}

void
ia_ring_mark_sites(void)
{
    uint64_t kept = ring.all < ring.capacity ? ring.all : ring.capacity;
    for (uint64_t i = 0; i < kept; i++)
        ia_site_mark(ring.events[i].site);
}

uint32_t
ia_ring_copy(ia_ring_event *out, uint64_t *all)
{
    *all = ring.all;
    if (ring.all <= ring.capacity) {
        memcpy(out, ring.events, ring.all * sizeof *out);
        return (uint32_t)ring.all;
    }
    uint32_t start = (uint32_t)(ring.all % ring.capacity);
    uint32_t tail = ring.capacity - start;
    memcpy(out, ring.events + start, tail * sizeof *out);
    memcpy(out + tail, ring.events, start * sizeof *out);
    return ring.capacity;
}
