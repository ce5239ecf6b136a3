/* A set of addresses: one bit per 16 bytes, in chunks made on demand.
 *
 * 16 MiB of addresses cost 128 KiB.  Two objects never share 16 bytes, so one
 * bit tells an object; graph nodes are far larger.  Plain C without Python.
 */
#ifndef IA_BITMAP_H
#define IA_BITMAP_H

#include <stddef.h>
#include <stdint.h>

#define IA_CHUNK_SHIFT 24 /* log2 of the addresses that one chunk covers */
#define IA_CHUNK_WORDS ((size_t)1 << (IA_CHUNK_SHIFT - 4 - 6))
#define IA_DIRECTORY_BITS 12 /* two levels of 12 bits: 48-bit addresses */

typedef struct {
    uint64_t **directory[1 << IA_DIRECTORY_BITS]; /* owned, NULL = none */
    uintptr_t last_chunk; /* number of the chunk in `last`, or UINTPTR_MAX */
    uint64_t *last;
    size_t chunks;
    int failed; /* memory was short: some address could not be marked */
} ia_bitmap;

ia_bitmap *ia_bitmap_new(void);
/* NULL when memory is short. */
ia_bitmap *ia_bitmap_copy(const ia_bitmap *);
void ia_bitmap_free(ia_bitmap *);
uint64_t *ia_bitmap_chunk(ia_bitmap *, uintptr_t number);

/* Marks an address; 1 when it was marked before.  An address that could not
 * be marked counts as marked, so that a walk ends in any case. */
static inline int
ia_bitmap_mark(ia_bitmap *map, uintptr_t address)
{
    uintptr_t number = address >> IA_CHUNK_SHIFT;
    uint64_t *chunk = number == map->last_chunk
                          ? map->last
                          : ia_bitmap_chunk(map, number);
    if (chunk == NULL)
        return 1;
    size_t bit = (address >> 4) & ((IA_CHUNK_WORDS * 64) - 1);
    uint64_t mask = UINT64_C(1) << (bit & 63);
    uint64_t word = chunk[bit >> 6];
    chunk[bit >> 6] = word | mask;
    return (word & mask) != 0;
}

int ia_bitmap_test(const ia_bitmap *, uintptr_t address);
/* Of an address that was marked. */
void ia_bitmap_unmark(ia_bitmap *, uintptr_t address);

/* The same, in line where the address lies in the chunk used last. */
static inline int
ia_bitmap_has(const ia_bitmap *map, uintptr_t address)
{
    uintptr_t number = address >> IA_CHUNK_SHIFT;
    if (number != map->last_chunk)
        return ia_bitmap_test(map, address);
    size_t bit = (address >> 4) & ((IA_CHUNK_WORDS * 64) - 1);
    return map->last[bit >> 6] >> (bit & 63) & 1;
}

#endif /* IA_BITMAP_H */
