/* Growing arrays against what was put there, and when memory is short. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>

#include "short_memory.h"

#include "array.h"

static void
keep_all(void)
{
    uint32_t *items = NULL, count = 0, capacity = 0, moves = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t before = capacity;
        assert(IA_ROOM(items, capacity, count + 1) == 0);
        moves += capacity != before;
        items[count++] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        assert(items[i] == i);
    assert(moves < 20);
    assert(IA_ROOM(items, capacity, 1000001) == 0 && capacity >= 1000001);
    assert(items[99999] == 99999);
    free(items);
}

static void
clear_what_is_new(void)
{
    uint32_t *items = NULL, capacity = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        assert(IA_CLEAR_ROOM(items, capacity, i + 1) == 0);
        assert(items[i] == 0 && items[capacity - 1] == 0);
        items[i] = i + 1;
    }
    for (uint32_t i = 0; i < 5000; i++)
        assert(items[i] == i + 1);
    free(items);
}

static void
run_out_of_memory(void)
{
    uint64_t *items = NULL;
    uint32_t capacity = 0;
    assert(IA_ROOM(items, capacity, 1) == 0);
    uint64_t *before = items;
    uint32_t room = capacity;
    allocations_left = 0;
    assert(IA_ROOM(items, capacity, room + 1) == -1);
    assert(items == before && capacity == room);
    assert(IA_ROOM(items, capacity, room) == 0);
    allocations_left = -1;
    /* More items than can be counted, or than there are addresses for. */
    uint64_t beyond = (uint64_t)UINT32_MAX + 1;
    assert(IA_ROOM(items, capacity, beyond) == -1);
    assert(ia_array_grow(&items, &capacity, UINT32_MAX / 2,
                         SIZE_MAX / 1000) == -1);
    assert(items == before && capacity == room);
    free(items);
}

int
main(void)
{
    keep_all();
    clear_what_is_new();
    run_out_of_memory();
    puts("array: ok");
    return 0;
}
