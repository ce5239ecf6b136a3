/* Births and deaths as they come, from any thread. */

#include "../base/clock.h"
#include "../base/device_name.h"
#include "../base/seldom.h"
#include "../base/thread.h"
#include "intervals.h"
#include "ledger.h"
#include "recurrence.h"
#include "ring.h"
#include "samples.h"
#include "sites.h"

#include <stdatomic.h>

static IA_OF_THREAD struct {
    uint32_t ticks;
    int collecting;
    uint16_t allowed_label;
    /* Stack of this thread's last birth, until a tensor object born in the
     * same place claims it. */
    uint32_t fresh_stack;
    uint32_t fresh_epoch; /* a sweep may have dropped it */
} self;

/* One hook call in SAMPLE is timed, and counts for all of them.  What goes
 * beyond LONGEST, a hundred times what a birth takes, counts once: the processor
 * was another's meanwhile.  So the little that tables take to grow, which is as
 * long, is counted where it is met alone. */
#define SAMPLE 128
#define LONGEST ((uint64_t)20000) /* ns */
static atomic_uint_fast64_t hook_ns;

static inline int
is_sampled(void)
{
    return ++self.ticks % SAMPLE == 0;
}

uint64_t
ia_ledger_hook_begin(void)
{
    return is_sampled() ? ia_clock_ns(CLOCK_MONOTONIC) : 0;
}

void
ia_ledger_hook_end(uint64_t begin)
{
    if (begin == 0)
        return;
    uint64_t took = ia_clock_ns(CLOCK_MONOTONIC) - begin;
    uint64_t usual = took < LONGEST ? took : LONGEST;
    atomic_fetch_add_explicit(&hook_ns, usual * SAMPLE + (took - usual),
                              memory_order_relaxed);
}

void
ia_ledger_remove(uintptr_t key)
{
    ia_row gone;
    if (!ia_book_strike(key, self.collecting, &gone))
        return;
    if (ia_intervals_open)
        ia_intervals_died(gone.device, gone.bytes);
    if (ia_ring_on)
        ia_ring_note(IA_RING_DEATH, &gone);
}

static void
add_row(const ia_row *row)
{
    int entered = ia_book_enter(row);
    if (entered == 0) {
        ia_ledger_remove(row->key); /* one whose death was not seen */
        entered = ia_book_enter(row);
    }
    if (entered < 0)
        return;
    if (ia_intervals_open)
        ia_intervals_born(row->device, row->bytes, row->stack);
    if (ia_ring_on)
        ia_ring_note(IA_RING_BIRTH, row);
}

static void
add_now(uintptr_t key, size_t bytes, uint32_t stack, uint16_t device)
{
    ia_row row = {
        .key = key,
        .bytes = bytes,
        .device = device,
        .array = device == IA_DEVICE_NUMPY,
        .stack = stack,
        .generation = ia_ledger_totals_now()->generation,
        .position = ia_ledger_totals_now()->position,
        .allowed = self.allowed_label,
        .phase = ia_ledger_phase(),
    };
    add_row(&row);
}

/* Is somebody to be told at once? */
static inline int
is_told_elsewhere(void)
{
    return (ia_intervals_open | ia_ring_on) != 0;
}

static inline void
add(uintptr_t key, size_t bytes, uint32_t stack, uint32_t site,
    uint16_t device)
{
    if (is_told_elsewhere() || self.allowed_label ||
        ia_book_enter_young(key, bytes, stack, site, device) == 0)
        add_now(key, bytes, stack, device);
}

/* A tensor born in the same place claims it. */
static inline void
note_fresh(uint32_t stack)
{
    self.fresh_stack = stack;
    self.fresh_epoch = ia_stacks_epoch;
}

uint32_t
ia_ledger_add(const ia_place *place, uintptr_t key, size_t bytes,
              uint16_t device)
{
    uint32_t stack = ia_place_intern(place);
    add(key, bytes, stack, ia_stack_site(stack), device);
    if (place->raw->count > 0)
        note_fresh(stack);
    else
        self.fresh_stack = IA_NO_STACK;
    return stack;
}

/* By a thread without a frame. */
static IA_SELDOM void
born_elsewhere(uintptr_t key, size_t bytes, uint16_t device)
{
    ia_place place;
    ia_place_capture(&place);
    ia_ledger_lock();
    ia_ledger_add(&place, key, bytes, device);
    ia_ledger_unlock();
}

static inline int
may_wait(uint32_t site)
{
    return !(is_told_elsewhere() | ia_samples_on | self.allowed_label) &&
           site < ia_book_ready_sites;
}

static IA_SELDOM void
born_at_once(uintptr_t key, size_t bytes, uint16_t device,
             const ia_raw_stack *raw)
{
    ia_journal_post();
    add_now(key, bytes, raw->stack, device);
    if (ia_samples_on)
        ia_samples_born(key, raw->site);
}

static inline void
born(uintptr_t key, size_t bytes, uint16_t device)
{
    ia_raw_stack *raw = ia_stack_capture();
    if (ia_seldom(raw->count == 0)) {
        born_elsewhere(key, bytes, device);
        return;
    }
    ia_journal_lock();
    uint32_t stack = ia_stack_intern(raw);
    note_fresh(stack);
    if (ia_seldom(!may_wait(raw->site)))
        born_at_once(key, bytes, device, raw);
    else
        ia_journal_birth(key, bytes, stack, raw->site, device,
                         self.collecting);
    int due = ia_the_recurrence.tell != NULL &&
              ia_recurrence_birth(ia_recurrence_place(raw));
    ia_ledger_unlock();
    if (ia_seldom(due))
        ia_recurrence_ask();
}

static IA_SELDOM void
born_timed(uintptr_t key, size_t bytes, uint16_t device)
{
    uint64_t begin = ia_clock_ns(CLOCK_MONOTONIC);
    born(key, bytes, device);
    ia_ledger_hook_end(begin);
}

void
ia_ledger_born(uintptr_t key, size_t bytes, uint16_t device)
{
    if (ia_seldom(is_sampled()))
        born_timed(key, bytes, device);
    else
        born(key, bytes, device);
}

void
ia_ledger_born_at(uintptr_t key, size_t bytes, uint16_t device,
                  const ia_birth *birth)
{
    ia_ledger_lock();
    ia_row row = {
        .key = key,
        .bytes = bytes,
        .device = device,
        .stack = birth->stack,
        .generation = birth->generation,
        .position =
            ia_ledger_position_then(birth->position, birth->generation),
        .allowed = birth->allowed,
        .phase = birth->phase,
    };
    add_row(&row);
    ia_ledger_unlock();
}

static IA_SELDOM void
died_at_once(uintptr_t key)
{
    ia_journal_post();
    ia_ledger_remove(key);
}

static inline void
died(uintptr_t key)
{
    ia_journal_lock();
    if (ia_seldom(is_told_elsewhere()))
        died_at_once(key);
    else
        ia_journal_death(key, self.collecting);
    ia_ledger_unlock();
}

static IA_SELDOM void
died_timed(uintptr_t key)
{
    uint64_t begin = ia_clock_ns(CLOCK_MONOTONIC);
    died(key);
    ia_ledger_hook_end(begin);
}

void
ia_ledger_died(uintptr_t key)
{
    if (ia_seldom(is_sampled()))
        died_timed(key);
    else
        died(key);
}

void
ia_ledger_left(uintptr_t key, uint16_t device)
{
    ia_ledger_lock();
    const ia_row *row = ia_ledger_find(key);
    if (row != NULL && row->device == device)
        ia_ledger_remove(key);
    ia_ledger_unlock();
}

void
ia_ledger_resized(uintptr_t key, uint16_t device, size_t bytes)
{
    ia_ledger_lock();
    ia_row *row = ia_ledger_find(key);
    if (row != NULL && row->device == device && row->bytes != bytes) {
        if (ia_intervals_open) {
            ia_intervals_died(device, row->bytes);
            ia_intervals_born(device, bytes, row->stack);
        }
        ia_book_resize(row, bytes);
    }
    ia_ledger_unlock();
}

int
ia_ledger_renamed(uintptr_t from, uintptr_t to)
{
    ia_ledger_lock();
    int known = ia_ledger_find(from) != NULL;
    if (known && from != to) {
        ia_ledger_remove(to); /* one whose death was not seen */
        known = ia_book_rename(from, to) == 0;
    }
    ia_ledger_unlock();
    return known;
}

size_t
ia_ledger_set_aside(uintptr_t key, uintptr_t aside)
{
    size_t bytes = 0;
    ia_ledger_lock();
    const ia_row *row = ia_ledger_find(key);
    if (row != NULL && ia_book_rename(key, aside) == 0)
        bytes = row->bytes;
    else if (row != NULL)
        ia_ledger_remove(key);
    ia_ledger_unlock();
    return bytes;
}

int
ia_ledger_show(uintptr_t key, uint16_t device)
{
    ia_ledger_lock();
    ia_row *row = ia_ledger_find(key);
    if (row != NULL && row->device == IA_DEVICE_NUMPY) {
        if (ia_intervals_open) {
            ia_intervals_died(row->device, row->bytes);
            ia_intervals_born(device, row->bytes, row->stack);
        }
        ia_book_move(row, device);
    }
    ia_ledger_unlock();
    return row != NULL;
}

void
ia_ledger_forget_arrays(void)
{
    uint32_t count;
    ia_row gone;
    ia_ledger_lock();
    const ia_row *rows = ia_ledger_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].key != 0 && rows[i].array)
            ia_book_strike(rows[i].key, 0, &gone);
    ia_ledger_unlock();
}

static __attribute__((noinline)) uint32_t
stack_here(void)
{
    ia_raw_stack *raw = ia_stack_capture();
    ia_journal_lock();
    uint32_t stack = ia_stack_intern(raw);
    ia_ledger_unlock();
    return stack;
}

static IA_SELDOM void
note_nodes(uint32_t stack)
{
    ia_node_mark next;
    if (!ia_place_next(&next))
        return;
    ia_ledger_lock();
    ia_places_note_nodes(&next, stack);
    ia_ledger_unlock();
}

static inline uint32_t
stack_of_birth(void)
{
    uint32_t stack = self.fresh_stack;
    self.fresh_stack = IA_NO_STACK;
    /* The GIL keeps sweeps away. */
    if (stack != IA_NO_STACK && self.fresh_epoch == ia_stacks_epoch &&
        ia_stack_is_at_its_end())
        return stack;
    return stack_here();
}

ia_birth
ia_ledger_birth(void)
{
    uint32_t stack = stack_of_birth();
    if (ia_places_follows_nodes())
        note_nodes(stack);
    /* The GIL guards clocks and phase against changes. */
    const ia_ledger_totals *now = ia_ledger_totals_now();
    return (ia_birth){stack, now->generation, now->position,
                      self.allowed_label, ia_ledger_phase()};
}

uint64_t
ia_ledger_hook_ns(void)
{
    return atomic_load_explicit(&hook_ns, memory_order_relaxed);
}

void
ia_ledger_set_collecting(int how)
{
    self.collecting = how;
}

int
ia_ledger_collecting(void)
{
    return self.collecting;
}

uint16_t
ia_ledger_set_allowed(uint16_t label)
{
    uint16_t before = self.allowed_label;
    self.allowed_label = label;
    return before;
}
