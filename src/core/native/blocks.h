/* Stretches of memory, in order. */
#ifndef IA_NATIVE_BLOCKS_H
#define IA_NATIVE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uintptr_t begin;
    size_t size;
} ia_block;

/* Does one of them begin in there? */
int ia_blocks_meet(const ia_block *, size_t count, uintptr_t begin,
                   uintptr_t end);

#endif /* IA_NATIVE_BLOCKS_H */
