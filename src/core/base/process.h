/* What the operating system and the C library say of this process. */
#ifndef IA_PROCESS_H
#define IA_PROCESS_H

#include <stdint.h>

/* Resident bytes, or 0 where /proc does not say.  Allocates nothing. */
uint64_t ia_process_resident(void);

#define IA_HEAP_UNKNOWN UINT64_MAX

/* Resident bytes by kind, and malloc's heap: in use, and free but kept;
 * IA_HEAP_UNKNOWN where another allocator took malloc's place. */
typedef struct {
    uint64_t resident, files, shared;
    uint64_t heap_used, heap_free;
} ia_process_memory;

/* What is in use of malloc's heap, or IA_HEAP_UNKNOWN. */
uint64_t ia_process_heap(void);

/* These two take the locks of malloc's arenas and go through what is free in
 * them; they allocate nothing. */
void ia_process_read(ia_process_memory *);

#endif /* IA_PROCESS_H */
