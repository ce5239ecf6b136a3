/* The kernel's list of mappings, and malloc's heads in them. */

#include "../base/array.h"
#include "../base/memory.h"
#include "chunks.h"
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bits of a size: the piece before is in use; it has pages of its own. */
#define BEFORE_IN_USE ((size_t)1)
#define OWN_PAGES ((size_t)2)
#define BITS ((size_t)7)
#define PIECE_ALIGNMENT ((size_t)16)
#define SMALLEST ((size_t)32)
/* A thread's heap begins at a multiple of this (HEAP_MAX_SIZE), with a head
 * and, where it is the arena's first, the arena in front: below a page. */
#define HEAP_ALIGNMENT ((uintptr_t)64 << 20)
#define BEFORE_FIRST ((size_t)4096)
/* Bytes of a stretch, about: where pieces were taken apart or put together
 * since, the rest of one is lost. */
#define STRETCH ((size_t)1 << 20)
/* So many pieces that fit together are no accident. */
#define ENOUGH 16

size_t
ia_chunk_size(const size_t head[2], size_t room)
{
    size_t size = head[1] & ~BITS;
    int is_one = size >= SMALLEST && size % PIECE_ALIGNMENT == 0;
    return is_one && size <= room ? size : 0;
}

int
ia_chunk_before_in_use(const size_t next[2])
{
    return (next[1] & BEFORE_IN_USE) != 0;
}

/* A request that a thread's own store serves, of a size that few have; and
 * one for which small pieces that were freed are put together first. */
#define AT_HAND 1000
#define PUTS_TOGETHER 2048

int
ia_chunks_freed(size_t *mark)
{
    size_t words[2][2] = {{0}};
    *mark = 0;
    /* Two, for what was there may have had the same by accident. */
    for (int i = 0; i < 2; i++) {
        void *volatile piece = malloc(i ? AT_HAND : AT_HAND - 64);
        uintptr_t at = (uintptr_t)piece;
        if (at == 0)
            return -1;
        free(piece);
        if (ia_memory_read(words[i], at, sizeof words[i]) != sizeof words[i])
            return 0;
    }
    void *volatile large = malloc(PUTS_TOGETHER);
    if (large == NULL)
        return -1;
    free(large);
    if (words[0][1] == words[1][1])
        *mark = words[0][1];
    return 0;
}

static int
add(ia_extents *e, uintptr_t begin, uintptr_t end, int single)
{
    if (IA_ROOM(e->items, e->capacity, e->count + 1) < 0)
        return -1;
    e->items[e->count++] = (ia_extent){begin, end, single};
    return 0;
}

/* Words of memory, read ahead. */
typedef struct {
    uintptr_t at;
    size_t size;
    size_t words[8192];
} view;

static int
read_head(view *v, uintptr_t at, size_t head[2])
{
    if (at < v->at || at + IA_CHUNK_HEAD > v->at + v->size) {
        v->at = at;
        v->size = ia_memory_read(v->words, at, sizeof v->words);
        if (v->size < IA_CHUNK_HEAD)
            return -1;
    }
    memcpy(head, (char *)v->words + (at - v->at), IA_CHUNK_HEAD);
    return 0;
}

/* Piece by piece from `begin` on; where they end, which is where the memory
 * does, or else `begin`. */
static uintptr_t
follow(view *v, uintptr_t begin, uintptr_t limit, size_t page)
{
    uintptr_t at = begin;
    size_t head[2], size, many = 0;
    for (; at < limit; at += size, many++)
        if (read_head(v, at, head) < 0 ||
            (size = ia_chunk_size(head, limit - at)) == 0)
            break;
    return many >= ENOUGH && at % page == 0 ? at : begin;
}

/* The same memory, a stretch at a time; its end, or 0 when memory is short. */
static uintptr_t
add_pieces(ia_extents *e, view *v, uintptr_t begin, uintptr_t end)
{
    uintptr_t from = begin, at = begin;
    size_t head[2], size;
    for (; at < end; at += size) {
        if (read_head(v, at, head) < 0 ||
            (size = ia_chunk_size(head, end - at)) == 0)
            break;
        if (at - from >= STRETCH) {
            if (add(e, from, at, 0) < 0)
                return 0;
            from = at;
        }
    }
    return at == from || add(e, from, at, 0) == 0 ? at : 0;
}

/* A thread's heap; its end, or `begin` where there is none. */
static uintptr_t
thread_heap(view *v, uintptr_t begin, uintptr_t limit, size_t page,
            uintptr_t *first)
{
    size_t head[2];
    for (*first = begin + 2 * PIECE_ALIGNMENT;
         *first < limit && *first < begin + BEFORE_FIRST;
         *first += PIECE_ALIGNMENT) {
        if (read_head(v, *first, head) < 0)
            break;
        if (!(head[1] & BEFORE_IN_USE) || (head[1] & OWN_PAGES) ||
            ia_chunk_size(head, limit - *first) == 0)
            continue;
        uintptr_t end = follow(v, *first, limit, page);
        if (end > *first)
            return end;
    }
    return begin;
}

/* The first heads of pages: pieces with pages of their own, and threads'
 * heaps.  What has never been written to is passed over: to read it would give
 * it pages. */
static int
add_pages(ia_extents *e, view *v, uintptr_t at, uintptr_t limit)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), head[2], size;
    uintptr_t first, end;
    while ((at = ia_pages_next(at, limit)) < limit) {
        if (at % HEAP_ALIGNMENT == 0 &&
            (end = thread_heap(v, at, limit, page, &first)) > at) {
            if (add_pieces(e, v, first, end) == 0)
                return -1;
            at = end;
            continue;
        }
        v->size = 0; /* the next page is far off */
        if (ia_memory_read(head, at, sizeof head) != sizeof head)
            return 0;
        size = ia_chunk_size(head, limit - at);
        if (size == 0 || size % page || head[0] ||
            (head[1] & BITS) != OWN_PAGES) {
            at += page;
            continue;
        }
        if (add(e, at, at + size, 1) < 0)
            return -1;
        at += size;
    }
    return 0;
}

typedef struct {
    uintptr_t begin, end;
    int is_heap; /* the first arena's */
} mapping;

/* One line of /proc/self/maps: 1 where malloc may have that memory. */
static int
read_mapping(const char *line, mapping *m)
{
    char rights[5], name[16] = "";
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %15s",
               &m->begin, &m->end, rights, name) < 3 ||
        strcmp(rights, "rw-p") != 0)
        return 0;
    m->is_heap = strcmp(name, "[heap]") == 0;
    return m->is_heap || name[0] == 0 || strncmp(name, "[anon", 5) == 0;
}

/* No memory of malloc's while that is looked at; empty afterwards. */
static view ahead;

static int
add_mapping(ia_extents *e, const mapping *m)
{
    view *v = &ahead;
    uintptr_t end;
    v->size = 0;
    if (m->end - m->begin > ia_pages_memory())
        return 0; /* reserved, as no malloc does */
    if (!m->is_heap)
        return add_pages(e, v, m->begin, m->end);
    end = follow(v, m->begin, m->end, (size_t)sysconf(_SC_PAGESIZE));
    return end > m->begin && add_pieces(e, v, m->begin, end) == 0 ? -1 : 0;
}

int
ia_extents_find(ia_extents *e)
{
    char line[512];
    mapping all = {0}, one;
    int bad = 0;
    ia_pages_begin();
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !bad && fgets(line, sizeof line, maps) != NULL) {
        if (!read_mapping(line, &one))
            continue;
        /* Since a fork the kernel may have in two what is one. */
        if (one.begin == all.end && one.is_heap == all.is_heap) {
            all.end = one.end;
            continue;
        }
        bad = add_mapping(e, &all) < 0;
        all = one;
    }
    bad = bad || add_mapping(e, &all) < 0;
    memset(&ahead, 0, sizeof ahead);
    e->partial |= ia_pages_end();
    e->partial |= maps == NULL || ferror(maps);
    if (maps != NULL)
        fclose(maps);
    return bad ? -1 : 0;
}

void
ia_extents_free(ia_extents *e)
{
    free(e->items);
    *e = (ia_extents){0};
}
