/* By halves. */

#include "blocks.h"

int
ia_blocks_meet(const ia_block *b, size_t count, uintptr_t begin,
               uintptr_t end)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (b[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && b[low].begin < end;
}
