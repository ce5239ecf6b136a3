/* A set of addresses: one bit per 16 bytes, in chunks made on demand. */

#include "bitmap.h"

#include <stdlib.h>
#include <string.h>

#define LOW(number) ((number) & ((1u << IA_DIRECTORY_BITS) - 1))
#define HIGH(number) ((number) >> IA_DIRECTORY_BITS)

ia_bitmap *
ia_bitmap_new(void)
{
    ia_bitmap *map = calloc(1, sizeof *map);
    if (map != NULL)
        map->last_chunk = UINTPTR_MAX;
    return map;
}

void
ia_bitmap_free(ia_bitmap *map)
{
    if (map == NULL)
        return;
    for (size_t i = 0; i < 1u << IA_DIRECTORY_BITS; i++) {
        uint64_t **page = map->directory[i];
        for (size_t j = 0; page != NULL && j < 1u << IA_DIRECTORY_BITS; j++)
            free(page[j]);
        free(page);
    }
    free(map);
}

ia_bitmap *
ia_bitmap_copy(const ia_bitmap *map)
{
    ia_bitmap *copy = ia_bitmap_new();
    for (uintptr_t i = 0; copy && i < 1u << IA_DIRECTORY_BITS; i++) {
        uint64_t **page = map->directory[i];
        for (uintptr_t j = 0; page && j < 1u << IA_DIRECTORY_BITS; j++) {
            uint64_t *chunk = page[j] ? ia_bitmap_chunk(
                                            copy, i << IA_DIRECTORY_BITS | j)
                                      : NULL;
            if (chunk != NULL)
                memcpy(chunk, page[j], IA_CHUNK_WORDS * sizeof *chunk);
        }
    }
    if (copy != NULL && (copy->failed || map->failed)) {
        ia_bitmap_free(copy);
        return NULL;
    }
    return copy;
}

uint64_t *
ia_bitmap_chunk(ia_bitmap *map, uintptr_t number)
{
    if (HIGH(number) >= 1u << IA_DIRECTORY_BITS)
        return NULL; /* beyond 48 bits: no user address is */
    uint64_t ***page = &map->directory[HIGH(number)];
    if (*page == NULL)
        *page = calloc(1u << IA_DIRECTORY_BITS, sizeof **page);
    if (*page != NULL && (*page)[LOW(number)] == NULL) {
        (*page)[LOW(number)] = calloc(IA_CHUNK_WORDS, sizeof(uint64_t));
        map->chunks += (*page)[LOW(number)] != NULL;
    }
    uint64_t *chunk = *page ? (*page)[LOW(number)] : NULL;
    if (chunk == NULL) {
        map->failed = 1;
        return NULL;
    }
    map->last_chunk = number;
    map->last = chunk;
    return chunk;
}

int
ia_bitmap_test(const ia_bitmap *map, uintptr_t address)
{
    uintptr_t number = address >> IA_CHUNK_SHIFT;
    if (HIGH(number) >= 1u << IA_DIRECTORY_BITS ||
        map->directory[HIGH(number)] == NULL ||
        map->directory[HIGH(number)][LOW(number)] == NULL)
        return 0;
    size_t bit = (address >> 4) & ((IA_CHUNK_WORDS * 64) - 1);
    uint64_t word = map->directory[HIGH(number)][LOW(number)][bit >> 6];
    return (int)(word >> (bit & 63) & 1);
}

void
ia_bitmap_unmark(ia_bitmap *map, uintptr_t address)
{
    uint64_t *chunk = ia_bitmap_chunk(map, address >> IA_CHUNK_SHIFT);
    size_t bit = (address >> 4) & ((IA_CHUNK_WORDS * 64) - 1);
    if (chunk != NULL)
        chunk[bit >> 6] &= ~(UINT64_C(1) << (bit & 63));
}
