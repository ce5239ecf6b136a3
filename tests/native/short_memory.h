/* Allocation that can be made to fail.
 *
 * The file under test is compiled with -Dmalloc=ia_test_malloc and so on for
 * calloc and realloc, this header's owner without.
 */
#ifndef IA_SHORT_MEMORY_H
#define IA_SHORT_MEMORY_H

#undef malloc
#undef calloc
#undef realloc
#include <stdlib.h>

static long allocations_left = -1; /* -1 = no limit */

static int
memory_is_short(void)
{
    if (allocations_left < 0)
        return 0;
    return allocations_left-- == 0 ? (allocations_left = 0, 1) : 0;
}

void *
ia_test_malloc(size_t size)
{
    return memory_is_short() ? NULL : malloc(size);
}

void *
ia_test_calloc(size_t n, size_t size)
{
    return memory_is_short() ? NULL : calloc(n, size);
}

void *
ia_test_realloc(void *block, size_t size)
{
    return memory_is_short() ? NULL : realloc(block, size);
}

#endif /* IA_SHORT_MEMORY_H */
