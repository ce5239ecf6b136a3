/* bitmap against an array of flags, and when memory is short. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "random.h"
#include "short_memory.h"

#include "bitmap.h"

#define GRAIN 16u
#define REGION 4096u /* grains around each place */

/* The ends of words, chunks, pages and of the 48 bits. */
static const uintptr_t places[] = {
    0,
    (uintptr_t)1 << IA_CHUNK_SHIFT,
    (uintptr_t)5 << IA_CHUNK_SHIFT,
    (uintptr_t)1 << (IA_CHUNK_SHIFT + IA_DIRECTORY_BITS),
    0x7f1234567000u,
    ((uintptr_t)1 << 48) - REGION * GRAIN,
};
#define PLACES (sizeof places / sizeof *places)

static char flags[PLACES][REGION];

static uintptr_t
start_of(size_t place)
{
    uintptr_t half = REGION / 2 * GRAIN;
    if (place == 0 || place == PLACES - 1)
        return places[place];
    return places[place] - half;
}

static void
check_all(const ia_bitmap *map)
{
    for (size_t p = 0; p < PLACES; p++)
        for (size_t i = 0; i < REGION; i++)
            assert(ia_bitmap_test(map, start_of(p) + i * GRAIN) ==
                   flags[p][i]);
}

static void
compare(void)
{
    ia_bitmap *map = ia_bitmap_new();
    assert(map != NULL);
    memset(flags, 0, sizeof flags);
    check_all(map);
    assert(map->chunks == 0);
    for (int turn = 0; turn < 60000; turn++) {
        size_t p = random_number(PLACES), i = random_number(REGION);
        uintptr_t address = start_of(p) + i * GRAIN + random_number(GRAIN);
        assert(ia_bitmap_mark(map, address) == flags[p][i]);
        flags[p][i] = turn % 4 != 0;
        if (!flags[p][i])
            ia_bitmap_unmark(map, address);
        if (turn % 6000 == 0)
            check_all(map);
    }
    check_all(map);
    /* One for 0, two around each inner border but that of 0x7f.., one. */
    assert(map->chunks >= PLACES && map->chunks <= 2 * PLACES);
    assert(!map->failed);
    ia_bitmap_free(map);
}

/* Beyond 48 bits nothing can be marked, and a walk must end in any case. */
static void
go_beyond(void)
{
    ia_bitmap *map = ia_bitmap_new();
    const uintptr_t far[] = {(uintptr_t)1 << 48, (uintptr_t)1 << 63,
                             UINTPTR_MAX};
    assert(map != NULL);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        assert(ia_bitmap_mark(map, far[i]) == 1);
        assert(ia_bitmap_test(map, far[i]) == 0);
        ia_bitmap_unmark(map, far[i]);
    }
    assert(map->chunks == 0);
    ia_bitmap_free(map);
}

static void
run_out_of_memory(void)
{
    const uintptr_t address = 0x7f0000000000u;
    ia_bitmap *map = ia_bitmap_new();
    assert(map != NULL);
    for (long limit = 0; limit < 2; limit++) {
        map->failed = 0;
        allocations_left = limit; /* no page; a page but no chunk */
        assert(ia_bitmap_mark(map, address) == 1);
        allocations_left = -1;
        assert(map->failed && map->chunks == 0);
        assert(ia_bitmap_test(map, address) == 0);
    }
    assert(ia_bitmap_mark(map, address) == 0);
    assert(ia_bitmap_test(map, address) == 1 && map->chunks == 1);
    ia_bitmap_free(map);
    allocations_left = 0;
    assert(ia_bitmap_new() == NULL);
    allocations_left = -1;
    ia_bitmap_free(NULL);
}

int
main(void)
{
    compare();
    go_beyond();
    run_out_of_memory();
    puts("bitmap: ok");
    return 0;
}
