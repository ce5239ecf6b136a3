/* The blocks of a device under events that may come, and under those that
 * never do, with memory that is short at any moment. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#include "random.h"
#include "short_memory.h"

#include "blocks.h"

#define MOST 400
#define BASE (UINT64_C(1) << 40)
#define SEGMENT (UINT64_C(2) << 20)

static ia_device_event
event(int action, uint64_t address, uint64_t bytes)
{
    return (ia_device_event){
        .address = address, .bytes = bytes, .action = (uint32_t)action};
}

static uint64_t
send(ia_blocks *m, int action, uint64_t address, uint64_t bytes)
{
    ia_device_event e = event(action, address, bytes);
    return ia_blocks_apply(m, &e, &ia_default_block_rules);
}

/* Fills segments from front to back, then frees in any order. */
static void
fill_and_free(void)
{
    ia_blocks *m = ia_blocks_new();
    uint64_t starts[MOST], total = 0;
    int n = 0;
    for (int s = 0; s < 4; s++) {
        uint64_t at = BASE + (uint64_t)s * 2 * SEGMENT;
        uint64_t end = at + SEGMENT;
        send(m, IA_DEVICE_SEGMENT_ALLOC, at, SEGMENT);
        while (n < MOST && at + 65536 < end) {
            uint64_t size =
                send(m, IA_DEVICE_ALLOC, at, 1 + random_number(65000));
            assert(size >= 512 && size % 512 == 0);
            starts[n++] = at;
            at += size;
            total += size;
        }
    }
    assert(ia_blocks_totals(m)->allocated_bytes == total);
    assert(ia_blocks_consistent(m));
    while (n > 0) {
        int i = (int)random_number((uint64_t)n);
        total -= send(m, IA_DEVICE_FREE_REQUESTED, starts[i], 0);
        send(m, IA_DEVICE_FREE_COMPLETED, starts[i], 0);
        assert(ia_blocks_totals(m)->allocated_bytes == total);
        assert(ia_blocks_consistent(m));
        starts[i] = starts[--n];
    }
    const ia_block_totals *t = ia_blocks_totals(m);
    ia_free_space space = ia_blocks_free_space(m);
    assert(t->allocated_bytes == 0 && space.inactive_split_bytes == 0);
    assert(t->drift == 0 && t->reserved_bytes == 4 * SEGMENT);
    assert(space.largest == SEGMENT);
    ia_blocks_free(m);
}

/* Any event at any time: nothing may be read or written amiss. */
static void
nonsense(void)
{
    ia_blocks *m = ia_blocks_new();
    for (int i = 0; i < 3000; i++) {
        ia_device_event e = event((int)random_number(12),
                                  BASE + 512 * random_number(64),
                                  512 * random_number(40));
        e.block = 512 * random_number(40);
        e.stream = random_number(50);
        e.pool = random_number(2);
        if (random_number(100) == 0)
            e.bytes = e.block = UINT64_MAX;
        ia_blocks_apply(m, &e, &ia_default_block_rules);
        assert(ia_blocks_consistent(m));
    }
    assert(ia_blocks_totals(m)->drift > 0);
    ia_blocks_free(m);
}

/* The n-th allocation of memory fails: the model breaks, and only that. */
static void
short_of_memory(long n)
{
    ia_blocks *m = ia_blocks_new();
    assert(m != NULL);
    allocations_left = n;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t at = BASE + i * 2 * SEGMENT;
        send(m, IA_DEVICE_SEGMENT_MAP, at, SEGMENT);
        send(m, IA_DEVICE_ALLOC, at, 5000);
    }
    allocations_left = -1;
    assert(ia_blocks_broken(m) == (n < 4) || (4 <= n && n < 100));
    ia_blocks_free(m);
}

int
main(void)
{
    for (int i = 0; i < 20; i++)
        fill_and_free();
    for (int i = 0; i < 20; i++)
        nonsense();
    for (long n = 0; n < 40; n++)
        short_of_memory(n);
    short_of_memory(1000);
    puts("blocks: ok");
    return 0;
}
