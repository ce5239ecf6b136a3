/* ptrmap against a plain array, and when memory is short. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "random.h"
#include "short_memory.h"

#include "ptrmap.h"

#define MOST_KEYS 5000

typedef struct {
    uintptr_t keys[MOST_KEYS];
    uint32_t values[MOST_KEYS];
    char there[MOST_KEYS];
    size_t n, used;
} model;

static model m;

/* Blocks of an arena, as allocators hand them out, or addresses from all
 * over; never the same one twice. */
static void
make_keys(size_t n, uintptr_t stride)
{
    memset(&m, 0, sizeof m);
    m.n = n;
    for (size_t i = 0; i < n; i++)
        m.keys[i] = stride ? 0x7f0000000000u + i * stride
                           : (uintptr_t)(random_number(1u << 31) * MOST_KEYS +
                                         i + 1);
}

static void
check_all(const ia_ptrmap *map)
{
    assert(map->used == m.used);
    for (size_t i = 0; i < m.n; i++)
        assert(ia_ptrmap_get(map, m.keys[i]) ==
               (m.there[i] ? m.values[i] : IA_PTRMAP_NONE));
}

static void
set_one(ia_ptrmap *map, size_t i)
{
    uint32_t value = (uint32_t)random_number(UINT32_MAX);
    assert(ia_ptrmap_set(map, m.keys[i], value) == 0);
    m.used += !m.there[i];
    m.there[i] = 1;
    m.values[i] = value;
}

static void
pop_one(ia_ptrmap *map, size_t i)
{
    assert(ia_ptrmap_pop(map, m.keys[i]) ==
           (m.there[i] ? m.values[i] : IA_PTRMAP_NONE));
    m.used -= m.there[i];
    m.there[i] = 0;
}

/* `fill` of 100: how full of keys the map is kept. */
static void
compare(size_t n, uintptr_t stride, unsigned fill, int turns)
{
    ia_ptrmap map = {0};
    make_keys(n, stride);
    check_all(&map);
    for (int turn = 0; turn < turns; turn++) {
        size_t i = random_number(n);
        if (random_number(100) < fill)
            set_one(&map, i);
        else
            pop_one(&map, i);
        if (turn % (turns / 16) == 0)
            check_all(&map);
    }
    check_all(&map);
    assert(ia_ptrmap_pop(&map, 0) == IA_PTRMAP_NONE);
    for (size_t i = 0; i < n; i++)
        pop_one(&map, i);
    check_all(&map);
    assert(map.used == 0);
    ia_ptrmap_free(&map);
}

/* Few keys in the smallest map: clusters that wrap around its end. */
static void
compare_small(void)
{
    for (int i = 0; i < 300; i++)
        compare(24 + random_number(16), i % 3 ? 0 : 16u << i % 5,
                30 + (unsigned)random_number(60), 400);
}

static void
use_empty(void)
{
    ia_ptrmap map = {0};
    assert(ia_ptrmap_get(&map, 16) == IA_PTRMAP_NONE);
    assert(ia_ptrmap_pop(&map, 16) == IA_PTRMAP_NONE);
    assert(ia_ptrmap_bytes(&map) == 0);
    ia_ptrmap_free(&map);
    ia_ptrmap_free(&map);
    assert(ia_ptrmap_set(&map, 16, 7) == 0);
    assert(ia_ptrmap_get(&map, 16) == 7);
    assert(ia_ptrmap_bytes(&map) > 0);
    ia_ptrmap_free(&map);
}

/* What was expected fits without growing. */
static void
reserve_ahead(void)
{
    ia_ptrmap map;
    assert(ia_ptrmap_init(&map, 1000) == 0);
    size_t before = ia_ptrmap_bytes(&map);
    make_keys(1000, 64);
    for (size_t i = 0; i < 1000; i++)
        set_one(&map, i);
    check_all(&map);
    assert(ia_ptrmap_bytes(&map) == before);
    ia_ptrmap_free(&map);
}

static void
run_out_of_memory(void)
{
    ia_ptrmap map = {0};
    int refused = 0;
    for (long limit = 0; limit < 2; limit++) {
        allocations_left = limit;
        assert(ia_ptrmap_init(&map, 10) == -1);
        assert(map.keys == NULL && map.values == NULL);
        assert(ia_ptrmap_set(&map, 16, 1) == -1);
    }
    allocations_left = -1;
    make_keys(2000, 64);
    for (size_t i = 0; i < m.n; i++) {
        allocations_left = (long)random_number(2);
        if (ia_ptrmap_set(&map, m.keys[i], (uint32_t)i) < 0) {
            refused++;
        } else {
            m.there[i] = 1;
            m.values[i] = (uint32_t)i;
            m.used++;
        }
        allocations_left = -1;
        check_all(&map);
        if (!m.there[i])
            set_one(&map, i);
    }
    assert(refused >= 5); /* once for each time that it had to grow */
    ia_ptrmap_free(&map);
}

int
main(void)
{
    use_empty();
    reserve_ahead();
    compare_small();
    compare(MOST_KEYS, 64, 60, 400000);
    compare(MOST_KEYS, 4096, 50, 400000);
    compare(MOST_KEYS, 0, 55, 400000);
    run_out_of_memory();
    puts("ptrmap: ok");
    return 0;
}
