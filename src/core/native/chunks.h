/* Where malloc's memory lies, and the pieces that it was given out in.
 *
 * glibc's: every piece has its size in front of it, and its neighbour says
 * whether it is in use.  What does not look so is left out, as is all memory
 * where another allocator serves.  Other threads may change it meanwhile:
 * what was read is believed as far as it fits together.
 */
#ifndef IA_CHUNKS_H
#define IA_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* A stretch of memory that begins with a piece and ends with one. */
typedef struct {
    uintptr_t begin, end;
    int single; /* one piece that has pages of its own */
} ia_extent;

typedef struct {
    ia_extent *items; /* owned */
    uint32_t count, capacity;
    int partial; /* not all that there is could be read */
} ia_extents;

/* 0, or -1 when memory is short. */
int ia_extents_find(ia_extents *);
void ia_extents_free(ia_extents *);

/* Bytes in front of a piece: its neighbour's last word and its size. */
#define IA_CHUNK_HEAD (2 * sizeof(size_t))

/* Size of the piece whose head was read, 0 where it can't be one with so
 * much room. */
size_t ia_chunk_size(const size_t head[2], size_t room);
/* Has malloc put aside what was freed, as far as it can be made to.  `mark` is
 * what stands then in the second word of a freed piece that it keeps at hand
 * all the same; 0 where that is not known.  0, or -1 when memory is short. */
int ia_chunks_freed(size_t *mark);
/* By the head of the next piece: is this one in use? */
int ia_chunk_before_in_use(const size_t next[2]);

#endif /* IA_CHUNKS_H */
