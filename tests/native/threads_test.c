/* The ledger under many threads: some allocate and free, some are born and
 * die, one ends steps and restarts the watch, one reads all that a report
 * does.  Run under ThreadSanitizer, and plain: the totals must be exact.
 *
 * A mutex stands for the GIL where our contract is that it is held.
 */

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_frames.h"

#include "../steps/criterion.h"
#include "../steps/curves.h"
#include "../steps/sweep.h"
#include "birthplace.h"
#include "intervals.h"
#include "ledger.h"
#include "libraries.h"
#include "ring.h"

#define WORKERS 4
#define BLOCKS 200 /* that each worker has at most */
#define RING 64

static pthread_mutex_t gil = PTHREAD_MUTEX_INITIALIZER;
static atomic_int over;
static long turns;

/* -- the framework, as far as a birth asks it ----------------------------- */

static _Thread_local uint64_t sequence;
static atomic_uint_fast64_t threads;
static _Thread_local uint64_t thread;

static void
next_node(ia_node_mark *next)
{
    if (thread == 0)
        thread = ++threads;
    *next = (ia_node_mark){.thread = thread, .sequence = sequence++};
}

static int
running_node(ia_node_mark *node)
{
    next_node(node);
    node->name = "MulBackward0";
    node->name_length = strlen(node->name);
    return 1;
}

static const ia_framework framework = {
    .version = IA_API_VERSION,
    .running_node = running_node,
    .next_node = next_node,
};

const ia_framework *ia_the_framework = &framework;

/* -- those who allocate --------------------------------------------------- */

typedef struct {
    uint64_t state;
    uintptr_t base; /* of the addresses that only this one uses */
    char alive[BLOCKS];
    uint32_t given; /* how many it has left to others */
} worker;

/* A block that one worker made, and another frees. */
static atomic_uintptr_t orphan;

static unsigned
chance(worker *w, unsigned below)
{
    w->state = w->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(w->state >> 33) % below;
}

static void
give_away(worker *w)
{
    uintptr_t key = w->base + 64 * (BLOCKS + 1 + (uintptr_t)++w->given);
    ia_ledger_born(key, 1 + chance(w, 4096), (uint16_t)chance(w, 3));
    key = atomic_exchange(&orphan, key);
    if (key != 0)
        ia_ledger_died(key);
}

static void
one_turn(worker *w)
{
    int deep = (int)chance(w, 6);
    unsigned i = chance(w, BLOCKS);
    uintptr_t key = w->base + 64 * (i + 1);
    for (int n = 0; n < deep; n++)
        fake_call((int)chance(w, 64), (int)chance(w, 16) * 2);
    if (chance(w, 500) == 0)
        fake_end_of_code((int)chance(w, 64));
    if (w->alive[i])
        ia_ledger_died(key);
    else
        ia_ledger_born(key, 1 + chance(w, 4096), (uint16_t)chance(w, 3));
    w->alive[i] = !w->alive[i];
    if (chance(w, 4) == 0)
        give_away(w);
    if (chance(w, 8) == 0) { /* the Python object of that tensor */
        pthread_mutex_lock(&gil);
        ia_birth birth = ia_ledger_birth();
        pthread_mutex_unlock(&gil);
        assert(birth.phase <= 3);
    }
    if (chance(w, 50) == 0) {
        uint16_t before = ia_ledger_set_allowed((uint16_t)chance(w, 3));
        assert(before <= 2);
    }
    if (chance(w, 50) == 0)
        ia_ledger_set_collecting((int)chance(w, 2));
    for (int n = 0; n < deep; n++)
        fake_return();
}

static void
free_all(worker *w)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        if (w->alive[i])
            ia_ledger_died(w->base + 64 * (i + 1));
    memset(w->alive, 0, sizeof w->alive);
}

/* A thread of a pool. */
static void *
work(void *arg)
{
    worker *w = arg;
    for (long n = 0; n < turns; n++)
        one_turn(w);
    free_all(w);
    return NULL;
}

/* A thread that lives for some allocations only. */
static void *
live_shortly(void *arg)
{
    worker *w = arg;
    for (int n = 0; n < 40; n++)
        one_turn(w);
    free_all(w);
    return NULL;
}

static void *
bear_threads(void *arg)
{
    worker *w = arg;
    while (!over) {
        pthread_t child;
        assert(pthread_create(&child, NULL, live_shortly, w) == 0);
        pthread_join(child, NULL);
    }
    return NULL;
}

/* -- those with the GIL --------------------------------------------------- */

static void
restart(uint32_t warmup)
{
    ia_ledger_lock();
    ia_ledger_reset(warmup);
    ia_criterion_reset(warmup, 3);
    ia_places_follow_nodes(warmup % 2);
    ia_ledger_unlock();
}

static void *
end_steps(void *arg)
{
    worker chances = {.state = 77};
    (void)arg;
    for (uint32_t step = 0; !over; step++) {
        pthread_mutex_lock(&gil);
        uint32_t fresh;
        ia_ledger_lock();
        ia_criterion_check(step % 2 ? IA_BY_TICK : IA_BY_POSITION, &fresh);
        ia_ledger_tick(step / 2);
        if (step % 40 == 39)
            ia_ledger_forget_positions();
        ia_ledger_set_phase((uint16_t)(step % 4));
        ia_ledger_unlock();
        if (chance(&chances, 50) == 0)
            restart(chance(&chances, 4));
        ia_sweep();
        pthread_mutex_unlock(&gil);
    }
    return NULL;
}

static void
read_stack(uint32_t id)
{
    char text[256];
    const ia_stack *stack = ia_stack_get(id);
    assert(ia_stack_of_number(ia_stack_number(id)) == id);
    assert(ia_stack_site(id) < ia_site_count());
    for (int f = 0; f < stack->count; f++)
        snprintf(text, sizeof text, "%s %s", ia_stack_frame(stack, f)->file,
                 ia_stack_frame(stack, f)->function);
}

/* With the GIL, so that no sweep comes in between. */
static void
read_stacks(void)
{
    uint32_t n;
    ia_ledger_lock();
    ia_stacks_pin();
    const ia_row *rows = ia_ledger_rows(&n);
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].key != 0 && rows[i].stack != IA_NO_STACK)
            read_stack(rows[i].stack);
    ia_stacks_unpin();
    ia_ledger_unlock();
}

static void
read_rows(void)
{
    uint32_t n, live = 0;
    ia_ledger_lock();
    const ia_row *rows = ia_ledger_rows(&n);
    for (uint32_t i = 0; i < n; i++)
        live += rows[i].key != 0;
    assert(live == ia_ledger_totals_now()->live_count);
    assert(ia_ledger_consistent());
    ia_ledger_unlock();
}

static void *
report(void *arg)
{
    static ia_ring_event memory[RING], copy[RING];
    static const char *const prefixes[] = {"/usr/lib/", "/home/me/file1"};
    ia_suspect found[8];
    uint64_t all;
    ia_interval interval;
    (void)arg;
    while (!over) {
        pthread_mutex_lock(&gil);
        uint64_t handle = ia_interval_open(1);
        ia_ledger_lock();
        ia_ring_attach(memory, RING);
        ia_libraries_set(prefixes, 2);
        ia_criterion_suspects(IA_BY_POSITION, 3, found, 8);
        ia_ledger_unlock();
        read_stacks();
        pthread_mutex_unlock(&gil);
        read_rows();
        pthread_mutex_lock(&gil);
        ia_ledger_lock();
        assert(ia_ring_copy(copy, &all) <= RING);
        ia_ring_detach();
        ia_ledger_unlock();
        assert(ia_interval_close(handle, &interval));
        pthread_mutex_unlock(&gil);
        assert(ia_ledger_hook_ns() < UINT64_C(1) << 62);
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    static worker workers[WORKERS + 1];
    pthread_t pool[WORKERS], others[3];
    turns = argc > 1 ? atol(argv[1]) : 20000;
    fake_init();
    assert(ia_ledger_init() == 0);
    restart(1);
    for (int i = 0; i <= WORKERS; i++) {
        workers[i].state = (uint64_t)i + 1;
        workers[i].base = (uintptr_t)(i + 1) << 32;
    }
    for (int i = 0; i < WORKERS; i++)
        assert(pthread_create(&pool[i], NULL, work, &workers[i]) == 0);
    assert(!pthread_create(&others[0], NULL, bear_threads, &workers[WORKERS]));
    assert(!pthread_create(&others[1], NULL, end_steps, NULL));
    assert(!pthread_create(&others[2], NULL, report, NULL));
    for (int i = 0; i < WORKERS; i++)
        pthread_join(pool[i], NULL);
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    ia_ledger_died(orphan);
    ia_ledger_lock();
    assert(ia_ledger_totals_now()->live_count == 0);
    assert(ia_ledger_totals_now()->live_bytes == 0);
    assert(ia_ledger_totals_now()->lost == 0);
    assert(ia_ledger_consistent());
    ia_ledger_unlock();
    puts("threads: ok");
    return 0;
}
