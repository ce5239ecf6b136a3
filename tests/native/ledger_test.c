/* The ledger against a model that does at once what the ledger may put off.
 *
 * Births and deaths at random, on two threads and in the child of a fork, with
 * memory that runs short, late births, blocks that are renamed, resized, set
 * aside or shown, arrays, allowed ones, intervals, a ring, ticks, sweeps and
 * restarts.  Both are compared now and then only: comparing asks for
 * everything, so the young grow up by it.
 */

#include "short_memory.h"

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_frames.h"
#include "random.h"

#include "../base/clock.h"
#include "../base/device_name.h"
#include "../steps/criterion.h"
#include "../steps/sweep.h"
#include "birthplace.h"
#include "intervals.h"
#include "ledger.h"
#include "ring.h"

#define KEYS 900 /* more than may be young at a time */
#define LINES 12
#define DEVICES 3
#define RING 32

const ia_framework *ia_the_framework; /* none */

/* -- the model -------------------------------------------------------------- */

typedef struct {
    uint64_t bytes; /* 0 = dead */
    int line;
    uint32_t tick, position;
    uint16_t device, allowed, phase, array;
} block;

typedef struct {
    uint64_t live_bytes, born_bytes, cycle_bytes, allowed_bytes;
    uint32_t live_count, born_count, cycle_count, allowed_count;
    uint32_t first_position, last_position, advanced, touched;
    uint32_t count_before;
    uint16_t phase, device;
    ia_survivors by[IA_CLOCKS];
} line;

static struct {
    block blocks[KEYS];
    line lines[LINES];
    uint64_t live, peak, allowed, births, deaths, lost;
    uint64_t on[DEVICES + 1], peak_on[DEVICES + 1];
    uint32_t count, tick, position, warmup;
    uint32_t forgotten; /* tick at which positions began anew */
    uint16_t phase;
    uint64_t seen; /* births and deaths since the ring is there */
    ia_interval interval;
    uint64_t handle; /* of an interval on device 0 */
    int ring;
} model;

static uint32_t stack_of[LINES], site_of[LINES];
static ia_ring_event ring[RING];

/* Of the thread that acts. */
static _Thread_local int collecting;
static _Thread_local uint16_t label;

static unsigned
chance(unsigned below)
{
    return (unsigned)random_number(below);
}

static uintptr_t
key_of(int i)
{
    return (uintptr_t)(i + 1) * 64;
}

static uint32_t
now(int clock)
{
    return clock == IA_BY_POSITION ? model.position : model.tick;
}

static int
device_index(uint16_t device)
{
    return device == IA_DEVICE_NUMPY ? DEVICES : device;
}

static void
advance(line *l)
{
    if (l->advanced == model.tick + 1)
        return;
    l->advanced = model.tick + 1;
    if (l->touched != model.tick + 1)
        l->count_before = l->live_count;
    l->touched = model.tick + 1;
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_advance(&l->by[c], now(c),
                             l->live_count - l->allowed_count,
                             l->live_bytes - l->allowed_bytes);
}

static uint32_t
birth_of(const block *b, int clock)
{
    return clock == IA_BY_POSITION ? b->position : b->tick;
}

static void
count_on(uint16_t device, uint64_t bytes)
{
    int d = device_index(device);
    model.on[d] += bytes;
    if (model.on[d] > model.peak_on[d])
        model.peak_on[d] = model.on[d];
}

static void
interval_born(uint16_t device, uint64_t bytes)
{
    ia_interval *w = &model.interval;
    if (model.handle == 0 || device != 0)
        return;
    w->born_bytes += bytes;
    w->births++;
    uint64_t live = w->before_bytes + w->born_bytes - w->died_bytes;
    if (live > w->peak_bytes)
        w->peak_bytes = live;
}

static void
interval_died(uint16_t device, uint64_t bytes)
{
    if (model.handle == 0 || device != 0)
        return;
    model.interval.died_bytes += bytes;
    model.interval.deaths++;
}

static void
model_death(block *b, int how)
{
    line *l = &model.lines[b->line];
    if (b->bytes == 0)
        return;
    advance(l);
    l->live_bytes -= b->bytes;
    l->live_count--;
    if (b->allowed) {
        l->allowed_bytes -= b->bytes;
        l->allowed_count--;
        model.allowed -= b->bytes;
    }
    if (how == IA_COLLECTING_ALL) {
        l->cycle_bytes += b->bytes;
        l->cycle_count++;
    }
    for (int c = 0; c < IA_CLOCKS && !b->allowed; c++) {
        ia_survivors_left(&l->by[c], now(c), l->live_count - l->allowed_count,
                          l->live_bytes - l->allowed_bytes);
        ia_survivors_died(&l->by[c], birth_of(b, c), now(c), !how);
    }
    model.live -= b->bytes;
    model.count--;
    model.deaths++;
    model.seen++;
    model.on[device_index(b->device)] -= b->bytes;
    interval_died(b->device, b->bytes);
    b->bytes = 0;
}

static void
model_birth(block *b, const block *new)
{
    line *l = &model.lines[new->line];
    *b = *new;
    advance(l);
    for (int c = 0; c < IA_CLOCKS && !b->allowed; c++)
        ia_survivors_born(&l->by[c], birth_of(b, c));
    if (l->born_count++ == 0)
        l->first_position = b->position;
    l->last_position = b->position;
    l->born_bytes += b->bytes;
    l->live_bytes += b->bytes;
    l->live_count++;
    if (b->allowed) {
        l->allowed_bytes += b->bytes;
        l->allowed_count++;
        model.allowed += b->bytes;
    }
    l->phase = b->phase;
    l->device = b->array ? IA_DEVICE_NUMPY : b->device;
    model.live += b->bytes;
    model.count++;
    model.births++;
    model.seen++;
    if (model.live > model.peak)
        model.peak = model.live;
    count_on(b->device, b->bytes);
    interval_born(b->device, b->bytes);
}

/* -- both are the same ------------------------------------------------------ */

static void
same_survivors(const ia_survivors *a, const ia_survivors *b)
{
    assert(a->base == b->base && a->begun == b->begun && a->life == b->life);
    assert(a->shift == b->shift && a->current == b->current);
    for (int i = 0; i < IA_BUCKETS; i++)
        assert(a->born[i] == b->born[i]);
    for (uint32_t i = 0; a->begun && i <= a->current; i++)
        assert(a->low[i] == b->low[i] && a->low_bytes[i] == b->low_bytes[i]);
}

static void
same_line(int i)
{
    const ia_site_totals *t = ia_ledger_site(site_of[i]);
    const line *l = &model.lines[i];
    if (t == NULL) {
        assert(l->born_count == 0);
        return;
    }
    assert(t->live_bytes == l->live_bytes && t->live_count == l->live_count);
    assert(t->born_bytes == l->born_bytes && t->born_count == l->born_count);
    assert(t->cycle_bytes == l->cycle_bytes);
    assert(t->cycle_count == l->cycle_count);
    assert(t->allowed_bytes == l->allowed_bytes);
    assert(t->allowed_count == l->allowed_count);
    assert(t->first_position == l->first_position);
    assert(t->last_position == l->last_position);
    assert(t->phase == l->phase && t->device == l->device);
    if (l->touched == model.tick + 1)
        assert(t->touched == model.tick && t->count_before == l->count_before);
    for (int c = 0; c < IA_CLOCKS; c++)
        same_survivors(&t->by[c], &l->by[c]);
}

static void
same_row(const ia_row *row)
{
    size_t i = row->key / 64 - 1;
    assert(row->key % 64 == 0 && i < KEYS);
    const block *b = &model.blocks[i];
    assert(row->bytes == b->bytes && row->stack == stack_of[b->line]);
    assert(row->generation == b->tick && row->position == b->position);
    assert(row->device == b->device && row->allowed == b->allowed);
    assert(row->phase == b->phase && row->array == b->array);
    assert(ia_ledger_find(row->key) == row);
}

static void
same_totals(void)
{
    const ia_ledger_totals *t = ia_ledger_totals_now();
    assert(t->live_bytes == model.live && t->live_count == model.count);
    assert(t->peak_bytes == model.peak && t->allowed_bytes == model.allowed);
    assert(t->births == model.births && t->deaths == model.deaths);
    assert(t->lost == model.lost);
    const ia_device_totals *d;
    int n = ia_ledger_devices(&d);
    for (int i = 0; i < n; i++) {
        assert(d[i].live_bytes == model.on[device_index(d[i].device)]);
        assert(d[i].peak_bytes == model.peak_on[device_index(d[i].device)]);
    }
}

/* One answer at a time, so that each has to care for the young by itself. */
static void
compare(void)
{
    uint32_t n, live = 0;
    ia_ledger_lock();
    same_totals();
    switch (chance(4)) {
    case 0:
        for (int i = 0; i < LINES; i++)
            same_line(i);
        break;
    case 1: {
        const ia_row *rows = ia_ledger_rows(&n);
        for (uint32_t i = 0; i < n; i++)
            if (rows[i].key != 0) {
                same_row(&rows[i]);
                live++;
            }
        assert(live == model.count);
        break;
    }
    case 2:
        for (int i = 0; i < KEYS; i++) {
            const ia_row *row = ia_ledger_find(key_of(i));
            assert((row != NULL) == (model.blocks[i].bytes != 0));
            if (row != NULL)
                same_row(row);
        }
        break;
    default:
        assert(ia_ledger_consistent());
    }
    same_totals();
    ia_ledger_unlock();
}

/* -- what happens ----------------------------------------------------------- */

static int
any_key(void)
{
    return (int)chance(KEYS);
}

/* Was the birth that just came lost?  Where there is memory it is not looked
 * at, so that births and deaths wait in the journal for one another. */
static int
was_lost(void)
{
    if (allocations_left < 0)
        return 0;
    ia_ledger_lock();
    uint64_t lost = ia_ledger_totals_now()->lost;
    ia_ledger_unlock();
    if (lost == model.lost)
        return 0;
    model.lost++;
    return 1;
}

static void
bear(int i)
{
    static const uint16_t devices[] = {0, 0, 0, 1, 2, IA_DEVICE_NUMPY};
    block b = {.bytes = 1 + chance(5000),
               .line = (int)chance(LINES),
               .tick = model.tick,
               .position = model.position,
               .device = devices[chance(6)],
               .allowed = label,
               .phase = model.phase};
    b.array = b.device == IA_DEVICE_NUMPY;
    fake_call(b.line, 2 * b.line);
    ia_ledger_born(key_of(i), b.bytes, b.device);
    fake_return();
    if (!was_lost()) {
        model_death(&model.blocks[i], collecting); /* it was not seen */
        model_birth(&model.blocks[i], &b);
    }
}

/* What was noted before positions began anew may be any. */
static void
bear_late(int i)
{
    uint32_t then = model.tick ? chance(model.tick) : 0;
    int forgotten = then <= model.forgotten;
    uint32_t most = forgotten ? 1000 : model.position;
    ia_birth birth = {.generation = then,
                      .position = most ? chance(most) : 0,
                      .allowed = label,
                      .phase = 3};
    block b = {.bytes = 1 + chance(5000),
               .line = (int)chance(LINES),
               .tick = birth.generation,
               .position = forgotten ? 0 : birth.position,
               .device = 2,
               .allowed = birth.allowed,
               .phase = birth.phase};
    birth.stack = stack_of[b.line];
    ia_ledger_born_at(key_of(i), b.bytes, b.device, &birth);
    if (!was_lost()) {
        model_death(&model.blocks[i], collecting);
        model_birth(&model.blocks[i], &b);
    }
}

static void
die(int i)
{
    ia_ledger_died(key_of(i));
    model_death(&model.blocks[i], collecting);
}

static void
leave(int i)
{
    uint16_t device = (uint16_t)chance(DEVICES);
    ia_ledger_left(key_of(i), device);
    if (model.blocks[i].device == device)
        model_death(&model.blocks[i], collecting);
}

/* As a block does that is resized: its bytes go by another address. */
static void
move(int from, int to)
{
    int known = ia_ledger_renamed(key_of(from), key_of(to));
    if (from == to || model.blocks[from].bytes == 0) {
        assert(known == (model.blocks[from].bytes != 0));
        return;
    }
    model_death(&model.blocks[to], collecting);
    assert(known || allocations_left >= 0);
    if (known) {
        model.blocks[to] = model.blocks[from];
        model.blocks[from].bytes = 0;
    }
}

static void
set_aside(int from, int to)
{
    if (model.blocks[to].bytes != 0)
        return;
    uint64_t bytes = ia_ledger_set_aside(key_of(from), key_of(to));
    if (bytes != 0) {
        assert(bytes == model.blocks[from].bytes);
        model.blocks[to] = model.blocks[from];
        model.blocks[from].bytes = 0;
    } else {
        assert(model.blocks[from].bytes == 0 || allocations_left >= 0);
        model_death(&model.blocks[from], collecting);
    }
}

static void
show(int i)
{
    block *b = &model.blocks[i];
    uint16_t device = (uint16_t)chance(DEVICES);
    assert(ia_ledger_show(key_of(i), device) == (b->bytes != 0));
    if (b->bytes == 0 || b->device != IA_DEVICE_NUMPY)
        return;
    ia_ledger_lock();
    int to_known = 0;
    const ia_device_totals *d;
    for (int n = ia_ledger_devices(&d); n > 0; n--)
        to_known |= d[n - 1].device == device;
    ia_ledger_unlock();
    assert(to_known);
    model.on[DEVICES] -= b->bytes;
    count_on(device, b->bytes);
    interval_born(device, b->bytes);
    b->device = device;
}

static void
forget_arrays(void)
{
    ia_ledger_forget_arrays();
    /* Their deaths are nobody's: neither a ring nor an interval is told. */
    uint64_t seen = model.seen, handle = model.handle;
    model.handle = 0;
    for (int i = 0; i < KEYS; i++)
        if (model.blocks[i].array)
            model_death(&model.blocks[i], 0);
    model.seen = seen;
    model.handle = handle;
}

static void
tick(void)
{
    model.tick++;
    model.position += chance(2);
    ia_ledger_lock();
    ia_ledger_tick(model.position);
    model.phase = (uint16_t)chance(4);
    ia_ledger_set_phase(model.phase);
    ia_ledger_unlock();
}

static void
forget_positions(void)
{
    ia_ledger_lock();
    ia_ledger_forget_positions();
    ia_ledger_unlock();
    model.position = 0;
    model.forgotten = model.tick;
    for (int i = 0; i < LINES; i++) {
        ia_survivors_reset(&model.lines[i].by[IA_BY_POSITION], model.warmup);
        model.lines[i].advanced = 0;
    }
    for (int i = 0; i < KEYS; i++) {
        block *b = &model.blocks[i];
        b->position = 0;
        if (b->bytes != 0 && !b->allowed)
            ia_survivors_born(&model.lines[b->line].by[IA_BY_POSITION], 0);
    }
}

static void
close_interval(void)
{
    ia_interval w;
    assert(ia_interval_close(model.handle, &w));
    assert(w.born_bytes == model.interval.born_bytes);
    assert(w.died_bytes == model.interval.died_bytes);
    assert(w.births == model.interval.births);
    assert(w.deaths == model.interval.deaths);
    assert(w.peak_bytes == model.interval.peak_bytes);
    model.handle = 0;
}

static void
open_or_close(void)
{
    if (model.handle != 0) {
        close_interval();
        return;
    }
    model.handle = ia_interval_open(0);
    assert(model.handle != 0);
    model.interval = (ia_interval){.before_bytes = model.on[0],
                                   .peak_bytes = model.on[0]};
}

static void
switch_ring(void)
{
    ia_ring_event copy[RING];
    uint64_t all;
    ia_ledger_lock();
    if (model.ring) {
        ia_ring_copy(copy, &all);
        assert(all == model.seen);
        ia_ring_detach();
    } else
        ia_ring_attach(ring, RING);
    ia_ledger_unlock();
    model.ring = !model.ring;
    model.seen = 0;
}

static void
restart(uint32_t warmup)
{
    if (model.handle != 0)
        close_interval();
    if (model.ring)
        switch_ring();
    ia_ledger_lock();
    ia_ledger_reset(warmup);
    ia_criterion_reset(warmup, 3);
    ia_ledger_unlock();
    memset(&model, 0, sizeof model);
    model.warmup = warmup;
    for (int i = 0; i < LINES; i++)
        for (int c = 0; c < IA_CLOCKS; c++)
            ia_survivors_reset(&model.lines[i].by[c], warmup);
}

/* Every line is known, so that no birth asks for memory but for its row. */
static void
learn_lines(void)
{
    for (int i = 0; i < LINES; i++) {
        fake_call(i, 2 * i);
        ia_ledger_lock();
        stack_of[i] = ia_stack_intern(ia_stack_capture());
        site_of[i] = ia_stack_site(stack_of[i]);
        ia_ledger_unlock();
        fake_return();
        assert(stack_of[i] != IA_NO_STACK && site_of[i] != IA_NO_SITE);
    }
}

static void
seldom(void)
{
    switch (chance(12)) {
    case 0:
        forget_positions();
        break;
    case 1:
        open_or_close();
        break;
    case 2:
        switch_ring();
        break;
    case 3:
        forget_arrays();
        break;
    case 4:
        label = (uint16_t)(chance(2) * 7);
        ia_ledger_set_allowed(label);
        break;
    case 5:
        collecting = (int)chance(3);
        ia_ledger_set_collecting(collecting);
        break;
    case 6:
        allocations_left = chance(2) ? -1 : (long)chance(6);
        break;
    default:
        compare();
    }
}

/* Short-lived ones, as most are; `wide`: how many keys they have. */
static void
some_events(int n, unsigned wide)
{
    unsigned first = chance(KEYS);
    for (; n > 0; n--) {
        int i = (int)((first + chance(wide)) % KEYS);
        unsigned what = chance(100);
        if (what < 45)
            bear(i);
        else if (what < 88)
            die(i);
        else if (what < 90)
            bear_late(i);
        else if (what < 92)
            move(i, any_key());
        else if (what < 94)
            set_aside(i, any_key());
        else if (what < 96)
            show(i);
        else if (what < 98)
            leave(i);
        else if (what < 99)
            tick();
        else
            seldom();
    }
}

/* Threads come with nothing of their own. */
static void *
elsewhere(void *arg)
{
    (void)arg;
    for (int i = 0; i < KEYS; i += 1 + (int)chance(9))
        die(i);
    some_events(40, KEYS);
    return NULL;
}

static void
on_another_thread(void)
{
    pthread_t thread;
    assert(pthread_create(&thread, NULL, elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
}

/* What was young at the fork is the child's, too. */
static void
in_a_child(void)
{
    int status;
    ia_ledger_lock();
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        ia_journal_after_fork();
        ia_ledger_after_fork();
        some_events(300, KEYS);
        for (int i = 0; i < KEYS; i++)
            die(i);
        compare();
        assert(model.count == 0);
        _exit(0);
    }
    ia_ledger_unlock();
    assert(waitpid(child, &status, 0) == child && status == 0);
}

/* No row is too many: all of them alive at a time, and young. */
static void
many_at_once(void)
{
    for (int i = 0; i < KEYS; i++)
        bear(i);
    if (chance(2))
        compare();
    for (int i = 0; i < KEYS; i++)
        if (chance(3))
            die(i);
}

/* Who was born has its row: no memory is asked for when the young grow up. */
static void
growing_up_needs_no_memory(void)
{
    restart(0);
    label = 0;
    ia_ledger_set_allowed(0);
    for (int i = 0; i < KEYS; i++) {
        allocations_left = i < KEYS / 3 ? -1 : 0;
        bear(i);
    }
    tick();
    compare();
    for (int i = 0; i < KEYS; i++)
        die(i);
    assert(model.count == 0 && model.lost > 0);
    allocations_left = -1;
    compare();
}

static void
sweep(void)
{
    allocations_left = -1;
    ia_ledger_lock();
    ia_book_mark_stacks();
    ia_stacks_sweep();
    ia_ledger_unlock();
    learn_lines();
}

/* A sweep keeps the lines of those who are young, though they come up no
 * more. */
static void
the_young_keep_their_stacks(void)
{
    restart(0);
    label = 0;
    ia_ledger_set_allowed(0);
    bear(0);
    for (int i = 0; i < 3; i++) {
        ia_ledger_lock();
        ia_book_mark_stacks();
        ia_stacks_sweep();
        ia_ledger_unlock();
    }
    ia_ledger_lock();
    same_row(ia_ledger_find(key_of(0)));
    assert(ia_stack_get(ia_ledger_find(key_of(0))->stack)->count == 1);
    ia_ledger_unlock();
    die(0);
    sweep();
}

/* A second in which the processor was another's is not made 128 of. */
static void
what_another_took_counts_once(void)
{
    uint64_t before = ia_ledger_hook_ns();
    ia_ledger_hook_end(ia_clock_ns(CLOCK_MONOTONIC) - 1000000000u);
    uint64_t took = ia_ledger_hook_ns() - before;
    assert(took >= 1000000000u && took < 100000000000u);
}

int
main(void)
{
    fake_init();
    assert(ia_ledger_init() == 0);
    learn_lines();
    for (int run = 0; run < 60; run++) {
        restart(run % 3);
        for (int turn = 0; turn < 12; turn++) {
            some_events(400, chance(3) ? 1 + chance(20) : KEYS);
            if (chance(4) == 0)
                on_another_thread();
            if (chance(8) == 0)
                many_at_once();
            if (chance(4) == 0)
                sweep();
            if (chance(4) == 0) {
                forget_positions();
                some_events(20, 30);
            }
            if (chance(4) == 0)
                compare();
        }
        if (run % 6 == 0)
            in_a_child();
        if (run % 10 == 0)
            growing_up_needs_no_memory();
        allocations_left = -1;
        if (run % 10 == 1)
            the_young_keep_their_stacks();
        compare();
    }
    what_another_took_counts_once();
    restart(0);
    ia_sweep();
    puts("ledger: ok");
    return 0;
}
