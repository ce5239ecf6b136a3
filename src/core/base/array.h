/* Growing arrays: room by doubling, in memory of malloc's.
 *
 *     if (IA_ROOM(list->items, list->capacity, list->count + 1) < 0)
 *
 * Plain C without Python.
 */
#ifndef IA_ARRAY_H
#define IA_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/* Room for `wanted` items in all; what is new is not cleared.  0, or -1 when
 * memory is short: nothing has changed then. */
#define IA_ROOM(array, capacity, wanted)                                      \
    ((wanted) <= (capacity)                                                   \
         ? 0                                                                  \
         : ia_array_grow(&(array), &(capacity), (wanted), sizeof *(array)))

/* The same; what is new is cleared. */
#define IA_CLEAR_ROOM(array, capacity, wanted)                                \
    ((wanted) <= (capacity)                                                   \
         ? 0                                                                  \
         : ia_array_grow_clear(&(array), &(capacity), (wanted),               \
                               sizeof *(array)))

/* `array` is the address of a pointer to items of any type. */
int ia_array_grow(void *array, uint32_t *capacity, uint64_t wanted,
                  size_t item);
int ia_array_grow_clear(void *array, uint32_t *capacity, uint64_t wanted,
                        size_t item);

#endif /* IA_ARRAY_H */
