/* Open-addressing map from a nonzero address to a 32-bit index. */

#include "ptrmap.h"

#include <assert.h>
#include <stdlib.h>

int
ia_ptrmap_init(ia_ptrmap *map, size_t expected)
{
    size_t capacity = 64;
    while (capacity < expected * 2)
        capacity *= 2;
    map->used = 0;
    map->mask = capacity - 1;
    map->keys = calloc(capacity, sizeof *map->keys);
    map->values = malloc(capacity * sizeof *map->values);
    if (map->keys == NULL || map->values == NULL) {
        ia_ptrmap_free(map);
        return -1;
    }
    return 0;
}

void
ia_ptrmap_free(ia_ptrmap *map)
{
    free(map->keys);
    free(map->values);
    *map = (ia_ptrmap){0};
}

uint32_t
ia_ptrmap_get(const ia_ptrmap *map, uintptr_t key)
{
    if (map->keys == NULL)
        return IA_PTRMAP_NONE;
    size_t i = ia_ptrmap_slot(map, key);
    while (map->keys[i] != 0) {
        if (map->keys[i] == key)
            return map->values[i];
        i = (i + 1) & map->mask;
    }
    return IA_PTRMAP_NONE;
}

/* Where the key stands, or would stand, in a map that has room. */
static inline size_t
search(const ia_ptrmap *map, uintptr_t key)
{
    size_t i = ia_ptrmap_slot(map, key);
    while (map->keys[i] != 0 && map->keys[i] != key)
        i = (i + 1) & map->mask;
    return i;
}

static inline void
put_at(ia_ptrmap *map, size_t i, uintptr_t key, uint32_t value)
{
    map->keys[i] = key;
    map->values[i] = value;
    map->used++;
}

static int
grow(ia_ptrmap *map)
{
    ia_ptrmap bigger;
    if (ia_ptrmap_init(&bigger, map->keys ? map->mask + 1 : 0) < 0)
        return -1;
    for (size_t i = 0; map->keys != NULL && i <= map->mask; i++)
        if (map->keys[i] != 0)
            put_at(&bigger, search(&bigger, map->keys[i]), map->keys[i],
                   map->values[i]);
    ia_ptrmap smaller = *map;
    *map = bigger;
    ia_ptrmap_free(&smaller);
    return 0;
}

int
ia_ptrmap_reserve(ia_ptrmap *map, size_t count)
{
    while (ia_ptrmap_room(map) < count)
        if (grow(map) < 0)
            return -1;
    return 0;
}

/* Where the key stands, or would stand; SIZE_MAX when memory is short. */
static inline size_t
place_for(ia_ptrmap *map, uintptr_t key)
{
    assert(key != 0);
    if (map->keys == NULL || map->used * 2 > map->mask)
        if (grow(map) < 0)
            return SIZE_MAX;
    return search(map, key);
}

int
ia_ptrmap_set(ia_ptrmap *map, uintptr_t key, uint32_t value)
{
    size_t i = place_for(map, key);
    if (i == SIZE_MAX)
        return -1;
    if (map->keys[i] == 0)
        put_at(map, i, key, value);
    else
        map->values[i] = value;
    return 0;
}

int
ia_ptrmap_add(ia_ptrmap *map, uintptr_t key, uint32_t value)
{
    size_t i = place_for(map, key);
    if (i == SIZE_MAX)
        return -1;
    if (map->keys[i] != 0)
        return 0;
    put_at(map, i, key, value);
    return 1;
}

uint32_t
ia_ptrmap_pop(ia_ptrmap *map, uintptr_t key)
{
    if (map->keys == NULL || key == 0) /* 0 stands in empty slots */
        return IA_PTRMAP_NONE;
    size_t i = ia_ptrmap_slot(map, key);
    while (map->keys[i] != key) {
        if (map->keys[i] == 0)
            return IA_PTRMAP_NONE;
        i = (i + 1) & map->mask;
    }
    uint32_t value = map->values[i];
    size_t hole = i;
    for (;;) {
        i = (i + 1) & map->mask;
        if (map->keys[i] == 0)
            break;
        size_t home = ia_ptrmap_slot(map, map->keys[i]);
        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            map->keys[hole] = map->keys[i];
            map->values[hole] = map->values[i];
            hole = i;
        }
    }
    map->keys[hole] = 0;
    map->used--;
    return value;
}

size_t
ia_ptrmap_bytes(const ia_ptrmap *map)
{
    return map->keys == NULL
               ? 0
               : (map->mask + 1) * (sizeof *map->keys + sizeof *map->values);
}
