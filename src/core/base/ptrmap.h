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

uint32_t ia_ptrmap_get(const ia_ptrmap *, uintptr_t key);
/* Adds or overwrites.  0, or -1 when memory is short (nothing changed). */
int ia_ptrmap_set(ia_ptrmap *, uintptr_t key, uint32_t value);
/* Adds only: 1, 0 where the key has a value, or -1 when memory is short. */
int ia_ptrmap_add(ia_ptrmap *, uintptr_t key, uint32_t value);
/* Returns the value that was there, or IA_PTRMAP_NONE. */
uint32_t ia_ptrmap_pop(ia_ptrmap *, uintptr_t key);
size_t ia_ptrmap_bytes(const ia_ptrmap *);

#endif /* IA_PTRMAP_H */
