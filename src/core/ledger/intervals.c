/* Intervals over the ledger's births and deaths. */

#include "journal.h"
#include "intervals.h"
#include "sites.h"

int ia_intervals_open;

static ia_interval intervals[IA_MAX_INTERVALS];
static uint32_t serials;

/* What died may be older than the ledger knows: after a restart of it. */
static uint64_t
live_in(const ia_interval *w)
{
    uint64_t gained = w->before_bytes + w->born_bytes;
    return gained > w->died_bytes ? gained - w->died_bytes : 0;
}

void
ia_intervals_born(uint16_t device, uint64_t bytes, uint32_t stack)
{
    for (int i = 0; i < IA_MAX_INTERVALS; i++) {
        ia_interval *w = &intervals[i];
        if (w->serial == 0 || w->device != device)
            continue;
        w->born_bytes += bytes;
        w->births++;
        if (live_in(w) > w->peak_bytes) {
            w->peak_bytes = live_in(w);
            w->peak_stack = stack;
        }
    }
}

void
ia_intervals_died(uint16_t device, uint64_t bytes)
{
    for (int i = 0; i < IA_MAX_INTERVALS; i++) {
        ia_interval *w = &intervals[i];
        if (w->serial == 0 || w->device != device)
            continue;
        w->died_bytes += bytes;
        w->deaths++;
    }
}

void
ia_intervals_mark_stacks(void)
{
    for (int i = 0; i < IA_MAX_INTERVALS; i++)
        if (intervals[i].serial != 0)
            ia_stack_mark(intervals[i].peak_stack);
}

static uint64_t
live_on(uint16_t device)
{
    const ia_device_totals *devices;
    int n = ia_ledger_devices(&devices);
    for (int i = 0; i < n; i++)
        if (devices[i].device == device)
            return devices[i].live_bytes;
    return 0;
}

static uint32_t
generation_now(void)
{
    return ia_ledger_totals_now()->generation;
}

uint64_t
ia_interval_open(uint16_t device)
{
    uint64_t handle = 0;
    ia_ledger_lock();
    for (int i = 0; handle == 0 && i < IA_MAX_INTERVALS; i++) {
        if (intervals[i].serial != 0)
            continue;
        uint64_t live = live_on(device);
        if (++serials == 0)
            serials = 1;
        intervals[i] = (ia_interval){.before_bytes = live,
                                     .peak_bytes = live,
                                     .steps = generation_now(),
                                     .serial = serials,
                                     .device = device};
        handle = (uint64_t)serials << 8 | (uint64_t)i;
        ia_intervals_open++;
    }
    ia_ledger_unlock();
    return handle;
}

int
ia_interval_close(uint64_t handle, ia_interval *out)
{
    int found = 0;
    size_t slot = handle & 0xFF;
    uint64_t serial = handle >> 8;
    ia_ledger_lock();
    if (slot < IA_MAX_INTERVALS && serial != 0 &&
        intervals[slot].serial == serial) {
        *out = intervals[slot];
        out->peak_number = ia_stack_number(out->peak_stack);
        out->steps = generation_now() - intervals[slot].steps;
        intervals[slot].serial = 0;
        ia_intervals_open--;
        found = 1;
    }
    ia_ledger_unlock();
    return found;
}
