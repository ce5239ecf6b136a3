/* Open-addressing map from a nonzero address to a 32-bit index.
 *
 * Plain C without Python: tests/native runs it alone under the sanitizers.
 * Linear probing with backward-shift deletion, so there are no tombstones and
 * a lookup that misses stays short for ever.
 */
#ifndef IA_PTRMAP_H
#define IA_PTRMAP_H

#include <stddef.h>
#include <stdint.h>

#define IA_PTRMAP_NONE UINT32_MAX

typedef struct {
    uintptr_t *keys; /* owned; 0 = empty */
    uint32_t *values; /* owned */
    size_t mask;     /* capacity - 1, capacity a power of two */
    size_t used;
} ia_ptrmap;

/* 0, or -1 when memory is short.  The map is usable when zeroed, too. */
int ia_ptrmap_init(ia_ptrmap *, size_t expected);
void ia_ptrmap_free(ia_ptrmap *);
/* Room for `count` keys in all.  0, or -1 when memory is short (nothing
 * changed). */
int ia_ptrmap_reserve(ia_ptrmap *, size_t count);
/* How many keys there is room for. */
static inline size_t
ia_ptrmap_room(const ia_ptrmap *map)
{
    return map->keys == NULL ? 0 : map->mask / 2 + 1;
}

/* Allocators return multiples of 16 or 64: the low bits say nothing, so a
 * multiplicative hash spreads the high ones. */
static inline uint64_t
ia_ptrmap_hash(uintptr_t key)
{
    return (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
}

static inline size_t
ia_ptrmap_slot(const ia_ptrmap *map, uintptr_t key)
{
    return (size_t)(ia_ptrmap_hash(key) >> 24) & map->mask;
}

static inline int
ia_ptrmap_has(const ia_ptrmap *map, uintptr_t key)
{
    if (map->keys == NULL)
        return 0;
    size_t i = ia_ptrmap_slot(map, key);
    while (map->keys[i] != 0 && map->keys[i] != key)
        i = (i + 1) & map->mask;
    return map->keys[i] != 0;
}

uint32_t ia_ptrmap_get(const ia_ptrmap *, uintptr_t key);
/* Adds or overwrites.  0, or -1 when memory is short (nothing changed). */
int ia_ptrmap_set(ia_ptrmap *, uintptr_t key, uint32_t value);
/* Adds only: 1, 0 where the key has a value, or -1 when memory is short. */
int ia_ptrmap_add(ia_ptrmap *, uintptr_t key, uint32_t value);
/* Returns the value that was there, or IA_PTRMAP_NONE. */
uint32_t ia_ptrmap_pop(ia_ptrmap *, uintptr_t key);
size_t ia_ptrmap_bytes(const ia_ptrmap *);

#endif /* IA_PTRMAP_H */
