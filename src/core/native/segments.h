/* The writable memory of the libraries that this process has loaded.
 *
 * Bounds are those of their program headers: what the kernel maps behind a
 * library's .bss is not the library's.
 */
#ifndef IA_SEGMENTS_H
#define IA_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uintptr_t begin, end;
    uintptr_t base;  /* a symbol's value is an address less this */
    uintptr_t load;  /* what was added to the addresses in the file */
    uintptr_t headers; /* program headers as they were loaded */
    uint32_t nheaders;
    int is_thread_local; /* those of the calling thread */
    int is_own; /* a library of ours */
    int is_code; /* functions, no variables (loaded.h) */
    char *path; /* owned; of the file */
} ia_segment;

typedef struct {
    ia_segment *items; /* owned */
    uint32_t count, capacity;
    int failed;
} ia_segments;

/* Those that may hold what a program keeps, and our own: not the
 * interpreter's, the loader's and malloc's.  0, or -1 when memory is short. */
int ia_segments_find(ia_segments *);
void ia_segments_free(ia_segments *);
/* The segment that an address lies in, or NULL. */
const ia_segment *ia_segments_at(const ia_segments *, uintptr_t address);

#endif /* IA_SEGMENTS_H */
