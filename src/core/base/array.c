/* Growing arrays. */

#include "array.h"

#include <stdlib.h>
#include <string.h>

/* So that small lists don't move for every few items. */
#define LEAST 64

int
ia_array_grow(void *array, uint32_t *capacity, uint64_t wanted, size_t item)
{
    uint64_t bigger = *capacity ? *capacity : LEAST;
    while (bigger < wanted)
        bigger *= 2;
    if (bigger > UINT32_MAX || bigger > SIZE_MAX / item)
        return -1;
    void *items; /* copied: pointers of two types must not share a place */
    memcpy(&items, array, sizeof items);
    items = realloc(items, (size_t)bigger * item);
    if (items == NULL)
        return -1;
    memcpy(array, &items, sizeof items);
    *capacity = (uint32_t)bigger;
    return 0;
}

int
ia_array_grow_clear(void *array, uint32_t *capacity, uint64_t wanted,
                    size_t item)
{
    uint32_t before = *capacity;
    char *items;
    if (ia_array_grow(array, capacity, wanted, item) < 0)
        return -1;
    memcpy(&items, array, sizeof items);
    memset(items + before * item, 0, (*capacity - before) * item);
    return 0;
}
