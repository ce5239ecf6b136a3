/* The blocks of one device, rebuilt from its allocator's events.
 *
 * torch makes one of free neighbours at once.  Here they stay apart until a
 * block is cut that the first has no room for, or whose size depends on all of
 * them, and until their memory goes back to the driver: a program's next step
 * asks for the same sizes again.  That changes no block that is in use: each is
 * cut from where the free memory begins, and how much of it follows matters for
 * large ones alone.
 */

#include "../base/array.h"
#include "../base/ptrmap.h"
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

/* The rules of torch's CUDACachingAllocator.  A block is a multiple of
 * MIN_BLOCK.  Requests up to SMALL come from a pool of their own, where every
 * rest is cut off; of a larger one a rest up to SMALL stays with the block,
 * unless the segment is expandable. */
#define MIN_BLOCK 512u
#define SMALL (1u << 20)
/* Powers of two from 1 MiB up may have divisions of their own. */
#define FIRST_DIVIDED 20

#define MOST_BYTES (UINT64_C(1) << 56)
#define NONE UINT32_MAX

enum { FREE, PENDING, ALLOCATED, UNUSED };

typedef struct {
    uint64_t start;
    uint64_t size;
    uint64_t requested;
    uint32_t prev, next; /* neighbours of the same segment, or NONE */
    uint8_t state;
    uint8_t stream; /* index */
    uint8_t expandable;
    uint8_t private_pool;
} block;

struct ia_blocks {
    block *items;
    uint32_t count, capacity, unused; /* unused: list by `next` */
    ia_ptrmap at_start;
    ia_ptrmap at_end; /* last blocks of expandable segments only */
    ia_block_totals totals;
    ia_stream_totals streams[IA_MAX_STREAMS];
    int nstreams, last_stream;
    uint32_t last; /* that was found: a free is requested and completed */
    int broken;
};

const ia_block_rules ia_default_block_rules = {.max_split = UINT64_MAX};

ia_blocks *
ia_blocks_new(void)
{
    ia_blocks *m = calloc(1, sizeof *m);
    if (m != NULL)
        m->unused = NONE;
    return m;
}

void
ia_blocks_free(ia_blocks *m)
{
    if (m == NULL)
        return;
    free(m->items);
    ia_ptrmap_free(&m->at_start);
    ia_ptrmap_free(&m->at_end);
    free(m);
}

/* -- the allocator's rules ----------------------------------------------- */

static int
log2_of(uint64_t n)
{
    return 63 - __builtin_clzll(n);
}

static uint64_t
rounded(const ia_block_rules *rules, uint64_t bytes)
{
    if (bytes < MIN_BLOCK)
        return MIN_BLOCK;
    int power = log2_of(bytes);
    int i = power - FIRST_DIVIDED;
    uint32_t parts =
        rules->divisions[i < 0 ? 0 : i < IA_DIVISIONS ? i : IA_DIVISIONS - 1];
    if (parts <= 1 || bytes <= (uint64_t)MIN_BLOCK * parts)
        return (bytes + MIN_BLOCK - 1) / MIN_BLOCK * MIN_BLOCK;
    uint64_t step = (UINT64_C(1) << power) >> log2_of(parts);
    if (step == 0)
        return UINT64_C(2) << power;
    return (bytes + step - 1) / step * step;
}

/* Is all of a rest cut off, however little? */
static int
is_cut_to_size(const block *b, uint64_t size)
{
    return size <= SMALL || b->expandable;
}

static int
leaves_a_rest(const ia_block_rules *rules, const block *b, uint64_t size)
{
    uint64_t rest = b->size - size;
    if (is_cut_to_size(b, size))
        return rest >= MIN_BLOCK;
    return size < rules->max_split && rest > SMALL;
}

/* -- totals -------------------------------------------------------------- */

static void
tally(ia_blocks *m, const block *b, int sign)
{
    if (b->state == FREE)
        return;
    uint64_t size = (uint64_t)sign * b->size;
    ia_block_totals *t = &m->totals;
    ia_stream_totals *s = &m->streams[b->stream];
    t->requested_bytes += (uint64_t)sign * b->requested;
    if (b->state == PENDING) {
        t->pending_bytes += size;
        t->pending_count += (uint32_t)sign;
        s->pending_bytes += size;
        return;
    }
    t->allocated_bytes += size;
    t->allocated_count += (uint32_t)sign;
    s->allocated_bytes += size;
    if (t->allocated_bytes > t->peak_allocated_bytes)
        t->peak_allocated_bytes = t->allocated_bytes;
}

static void
tally_segment(ia_blocks *m, const block *b, uint64_t bytes, int sign)
{
    uint64_t size = (uint64_t)sign * bytes;
    ia_block_totals *t = &m->totals;
    t->reserved_bytes += size;
    m->streams[b->stream].reserved_bytes += size;
    if (b->expandable)
        t->mapped_bytes += size;
    else
        t->segments += (uint32_t)sign;
    if (b->private_pool)
        t->private_bytes += size;
    if (t->reserved_bytes > t->peak_reserved_bytes)
        t->peak_reserved_bytes = t->reserved_bytes;
}

static uint8_t
stream_index(ia_blocks *m, uint64_t stream)
{
    if (m->nstreams > 0 && m->streams[m->last_stream].stream == stream)
        return (uint8_t)m->last_stream;
    int i = 0;
    while (i < m->nstreams && m->streams[i].stream != stream)
        i++;
    if (i == m->nstreams && i < IA_MAX_STREAMS)
        m->streams[m->nstreams++].stream = stream;
    m->last_stream = i < IA_MAX_STREAMS ? i : IA_MAX_STREAMS - 1;
    return (uint8_t)m->last_stream;
}

static int
is_alone(const block *b)
{
    return b->prev == NONE && b->next == NONE;
}

/* -- blocks and their neighbours ----------------------------------------- */

static uint64_t
end_of(const block *b)
{
    return b->start + b->size;
}

static uint32_t
take(ia_blocks *m)
{
    uint32_t i = m->unused;
    if (i != NONE) {
        m->unused = m->items[i].next;
        return i;
    }
    if (IA_ROOM(m->items, m->capacity, m->count + 1) < 0) {
        m->broken = 1;
        return NONE;
    }
    return m->count++;
}

static uint32_t
find(const ia_blocks *m, uint64_t start)
{
    return start ? ia_ptrmap_get(&m->at_start, start) : NONE;
}

/* The same of one that is asked for again at once. */
static uint32_t
find_again(ia_blocks *m, uint64_t start)
{
    if (m->last >= m->count || m->items[m->last].start != start)
        m->last = find(m, start);
    return m->last;
}

/* The block at `start`, like `model` but for its place; NONE where there is
 * one already, which no allocator's events lead to. */
static uint32_t
add(ia_blocks *m, uint64_t start, uint64_t size, block model)
{
    uint32_t i = find(m, start) == NONE ? take(m) : NONE;
    if (i == NONE) {
        m->totals.drift++;
        return NONE;
    }
    model.start = start;
    model.size = size;
    model.requested = 0;
    model.state = FREE;
    m->items[i] = model;
    if (ia_ptrmap_set(&m->at_start, start, i) < 0)
        m->broken = 1;
    return i;
}

static void
drop(ia_blocks *m, uint32_t i)
{
    ia_ptrmap_pop(&m->at_start, m->items[i].start);
    m->items[i] = (block){.state = UNUSED, .next = m->unused};
    m->unused = i;
}

static void
note_end(ia_blocks *m, uint32_t i)
{
    const block *b = &m->items[i];
    if (b->expandable && b->next == NONE &&
        ia_ptrmap_set(&m->at_end, end_of(b), i) < 0)
        m->broken = 1;
}

static void
join(ia_blocks *m, uint32_t first, uint32_t second)
{
    if (first != NONE)
        m->items[first].next = second;
    if (second != NONE)
        m->items[second].prev = first;
}

/* Cuts a free block after `size` bytes.  The index of the rest, or NONE where
 * nothing could be cut. */
static uint32_t
cut(ia_blocks *m, uint32_t i, uint64_t size)
{
    block b = m->items[i];
    uint32_t rest = add(m, b.start + size, b.size - size, b);
    if (rest == NONE)
        return NONE;
    m->items[i].size = size;
    join(m, rest, b.next);
    join(m, i, rest);
    note_end(m, rest);
    return rest;
}

/* The free block `second` becomes part of the free block `first`. */
static void
absorb(ia_blocks *m, uint32_t first, uint32_t second)
{
    uint32_t next = m->items[second].next;
    m->items[first].size += m->items[second].size;
    join(m, first, next);
    drop(m, second);
    note_end(m, first);
}

static int
is_free(const ia_blocks *m, uint32_t i)
{
    return i != NONE && m->items[i].state == FREE;
}

/* A free block and those behind it become one, as far as they are free. */
static void
gather(ia_blocks *m, uint32_t i)
{
    while (is_free(m, m->items[i].next))
        absorb(m, i, m->items[i].next);
}

static uint32_t
first_free(const ia_blocks *m, uint32_t i)
{
    while (is_free(m, m->items[i].prev))
        i = m->items[i].prev;
    return i;
}

/* The free block that an unmapped range lies in, whole.  Rare. */
static uint32_t
find_around(ia_blocks *m, uint64_t start, uint64_t end)
{
    uint32_t i = find(m, start);
    for (uint32_t n = 0; i == NONE && n < m->count; n++) {
        const block *b = &m->items[n];
        if (b->state == FREE && b->start <= start && start < end_of(b))
            i = n;
    }
    if (!is_free(m, i) || !m->items[i].expandable)
        return NONE;
    i = first_free(m, i);
    gather(m, i);
    return end <= end_of(&m->items[i]) ? i : NONE;
}

/* -- events -------------------------------------------------------------- */

static block
model_of(ia_blocks *m, const ia_device_event *e, int expandable)
{
    return (block){
        .prev = NONE,
        .next = NONE,
        .stream = stream_index(m, e->stream),
        .expandable = (uint8_t)expandable,
        .private_pool = e->pool != 0,
    };
}

/* A block of a segment that was never told of. */
static uint32_t
stray(ia_blocks *m, const ia_device_event *e, uint64_t size)
{
    m->totals.drift++;
    return add(m, e->address, size, model_of(m, e, 0));
}

static void
set_state(ia_blocks *m, uint32_t i, int state)
{
    tally(m, &m->items[i], -1);
    m->items[i].state = (uint8_t)state;
    tally(m, &m->items[i], 1);
}

/* The first `size` bytes of a free block get a state. */
static uint64_t
occupy(ia_blocks *m, uint32_t i, uint64_t size, int is_cut, int state,
       uint64_t requested)
{
    if (is_cut)
        cut(m, i, size);
    m->items[i].state = (uint8_t)state;
    m->items[i].requested = state == FREE ? 0 : requested;
    tally(m, &m->items[i], 1);
    return m->items[i].size;
}

static uint64_t
on_alloc(ia_blocks *m, const ia_device_event *e, const ia_block_rules *rules)
{
    uint64_t size = rounded(rules, e->bytes);
    uint32_t i = find_again(m, e->address);
    if (i == NONE) {
        i = stray(m, e, size);
        if (i == NONE)
            return 0;
    } else if (m->items[i].state != FREE) {
        m->totals.drift++; /* its death was not seen */
        set_state(m, i, FREE);
    }
    if (m->items[i].size < size || !is_cut_to_size(&m->items[i], size))
        gather(m, i);
    if (m->items[i].size < size) {
        m->totals.drift++;
        size = m->items[i].size;
    }
    return occupy(m, i, size, leaves_a_rest(rules, &m->items[i], size),
                  ALLOCATED, e->bytes);
}

static void
on_known(ia_blocks *m, const ia_device_event *e, int state)
{
    uint32_t i = find(m, e->address);
    if (!is_free(m, i) || m->items[i].size < e->block) {
        m->totals.drift++;
        return;
    }
    occupy(m, i, e->block, m->items[i].size > e->block, state, e->bytes);
}

static uint64_t
on_free_requested(ia_blocks *m, const ia_device_event *e)
{
    uint32_t i = find_again(m, e->address);
    if (i == NONE || m->items[i].state != ALLOCATED) {
        m->totals.drift++;
        return 0;
    }
    set_state(m, i, PENDING);
    return m->items[i].size;
}

static void
on_free_completed(ia_blocks *m, const ia_device_event *e)
{
    uint32_t i = find_again(m, e->address);
    if (i == NONE || m->items[i].state == FREE) {
        m->totals.drift++;
        return;
    }
    set_state(m, i, FREE);
    m->items[i].requested = 0;
}

static void
on_segment_alloc(ia_blocks *m, const ia_device_event *e)
{
    uint32_t i = add(m, e->address, e->bytes, model_of(m, e, 0));
    if (i != NONE)
        tally_segment(m, &m->items[i], e->bytes, 1);
}

static void
on_segment_free(ia_blocks *m, const ia_device_event *e)
{
    uint32_t i = find(m, e->address);
    if (is_free(m, i))
        gather(m, i);
    if (!is_free(m, i) || m->items[i].expandable ||
        m->items[i].size != e->bytes || !is_alone(&m->items[i])) {
        m->totals.drift++;
        return;
    }
    tally_segment(m, &m->items[i], e->bytes, -1);
    drop(m, i);
}

/* Segments of different streams or pools may lie side by side. */
static int
same_segment(const ia_blocks *m, uint32_t neighbour, uint32_t i)
{
    if (neighbour == NONE)
        return 0;
    const block *a = &m->items[neighbour], *b = &m->items[i];
    return a->state != UNUSED && a->expandable && a->stream == b->stream &&
           a->private_pool == b->private_pool;
}

static void
on_segment_map(ia_blocks *m, const ia_device_event *e)
{
    uint32_t prev = ia_ptrmap_get(&m->at_end, e->address);
    uint32_t next = find(m, e->address + e->bytes);
    uint32_t i = add(m, e->address, e->bytes, model_of(m, e, 1));
    if (i == NONE)
        return;
    if (same_segment(m, prev, i)) {
        ia_ptrmap_pop(&m->at_end, e->address);
        join(m, prev, i);
    }
    if (same_segment(m, next, i) && m->items[next].prev == NONE)
        join(m, i, next);
    note_end(m, i);
    tally_segment(m, &m->items[i], e->bytes, 1);
}

static void
on_segment_unmap(ia_blocks *m, const ia_device_event *e)
{
    uint64_t end = e->address + e->bytes;
    uint32_t i = find_around(m, e->address, end);
    if (i == NONE) {
        m->totals.drift++;
        return;
    }
    if (end < end_of(&m->items[i]))
        cut(m, i, end - m->items[i].start);
    if (m->items[i].start < e->address)
        i = cut(m, i, e->address - m->items[i].start);
    if (i == NONE)
        return;
    end = end_of(&m->items[i]);
    uint32_t prev = m->items[i].prev, next = m->items[i].next;
    tally_segment(m, &m->items[i], e->bytes, -1);
    if (next == NONE)
        ia_ptrmap_pop(&m->at_end, end);
    else
        m->items[next].prev = NONE;
    drop(m, i);
    if (prev != NONE) {
        m->items[prev].next = NONE;
        note_end(m, prev);
    }
}

/* No real event is otherwise; none may harm us. */
static int
can_be(const ia_device_event *e)
{
    switch (e->action) {
    case IA_DEVICE_OOM:
        return 1;
    case IA_DEVICE_KNOWN_ALLOCATED:
    case IA_DEVICE_KNOWN_PENDING:
    case IA_DEVICE_KNOWN_FREE:
        return e->address != 0 && e->block > 0 && e->block < MOST_BYTES;
    case IA_DEVICE_SEGMENT_ALLOC:
    case IA_DEVICE_SEGMENT_FREE:
    case IA_DEVICE_SEGMENT_MAP:
    case IA_DEVICE_SEGMENT_UNMAP:
        return e->address != 0 && e->bytes > 0 && e->bytes < MOST_BYTES;
    default:
        return e->address != 0 && e->bytes < MOST_BYTES;
    }
}

uint64_t
ia_blocks_apply(ia_blocks *m, const ia_device_event *e,
                const ia_block_rules *rules)
{
    if (m->broken)
        return 0;
    m->totals.events++;
    if (!can_be(e)) {
        m->totals.drift++;
        return 0;
    }
    switch ((ia_device_action)e->action) {
    case IA_DEVICE_ALLOC:
        return on_alloc(m, e, rules);
    case IA_DEVICE_FREE_REQUESTED:
        return on_free_requested(m, e);
    case IA_DEVICE_FREE_COMPLETED:
        on_free_completed(m, e);
        break;
    case IA_DEVICE_SEGMENT_ALLOC:
        on_segment_alloc(m, e);
        break;
    case IA_DEVICE_SEGMENT_FREE:
        on_segment_free(m, e);
        break;
    case IA_DEVICE_SEGMENT_MAP:
        on_segment_map(m, e);
        break;
    case IA_DEVICE_SEGMENT_UNMAP:
        on_segment_unmap(m, e);
        break;
    case IA_DEVICE_OOM:
        m->totals.ooms++;
        break;
    case IA_DEVICE_KNOWN_ALLOCATED:
        on_known(m, e, ALLOCATED);
        break;
    case IA_DEVICE_KNOWN_PENDING:
        on_known(m, e, PENDING);
        break;
    case IA_DEVICE_KNOWN_FREE:
        on_known(m, e, FREE);
        break;
    case IA_DEVICE_ACTIONS:
        break;
    }
    return 0;
}

/* -- what is known ------------------------------------------------------- */

int
ia_blocks_broken(const ia_blocks *m)
{
    return m->broken;
}

const ia_block_totals *
ia_blocks_totals(const ia_blocks *m)
{
    return &m->totals;
}

int
ia_blocks_streams(const ia_blocks *m, const ia_stream_totals **out)
{
    *out = m->streams;
    return m->nstreams;
}

ia_free_space
ia_blocks_free_space(const ia_blocks *m)
{
    ia_free_space all = {0};
    for (uint32_t first = 0; first < m->count; first++) {
        if (!is_free(m, first) || is_free(m, m->items[first].prev))
            continue;
        uint64_t size = 0;
        uint32_t last = first;
        for (uint32_t i = first; is_free(m, i); i = m->items[last = i].next)
            size += m->items[i].size;
        const block *a = &m->items[first], *b = &m->items[last];
        /* Whole pages of expandable segments can be given back, so torch
         * leaves those out of its count. */
        if (!a->expandable && (a->prev != NONE || b->next != NONE))
            all.inactive_split_bytes += size;
        if (size > all.largest)
            all.largest = size;
    }
    return all;
}

size_t
ia_blocks_bytes(const ia_blocks *m)
{
    return sizeof *m + m->capacity * sizeof *m->items +
           ia_ptrmap_bytes(&m->at_start) + ia_ptrmap_bytes(&m->at_end);
}

static int
is_linked(const ia_blocks *m, uint32_t i)
{
    const block *b = &m->items[i];
    if (b->next != NONE && (m->items[b->next].prev != i ||
                            m->items[b->next].start != end_of(b)))
        return 0;
    if (b->prev != NONE && m->items[b->prev].next != i)
        return 0;
    /* Blocks that overlap, as events amiss may tell, may share an end. */
    if (b->next == NONE && b->expandable && m->totals.drift == 0 &&
        ia_ptrmap_get(&m->at_end, end_of(b)) != i)
        return 0;
    return find(m, b->start) == i;
}

int
ia_blocks_consistent(const ia_blocks *m)
{
    uint64_t allocated = 0, pending = 0, requested = 0, used = 0, ends = 0;
    uint64_t everything = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const block *b = &m->items[i];
        if (b->state == UNUSED)
            continue;
        used++;
        everything += b->size;
        ends += b->expandable && b->next == NONE;
        requested += b->requested;
        allocated += b->state == ALLOCATED ? b->size : 0;
        pending += b->state == PENDING ? b->size : 0;
        if (!is_linked(m, i))
            return 0;
    }
    const ia_block_totals *t = &m->totals;
    return allocated == t->allocated_bytes && pending == t->pending_bytes &&
           requested == t->requested_bytes && used == m->at_start.used &&
           (t->drift > 0 ||
            (ends == m->at_end.used && everything == t->reserved_bytes));
}
