/* Stacks of allocations, and the sweep of those that nobody names. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/ptrmap.h"
#include "../base/seldom.h"
#include "sites.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Call paths that are known without a look at their frames.  When ever new
 * ones have filled this up it is emptied, and each path that still comes is
 * looked at once more. */
#define CACHED_PATHS ((uint32_t)1 << 16)

typedef struct {
    ia_stack shown; /* frames NULL = free, but for IA_NO_STACK */
    uint64_t hash;
    uint32_t serial; /* how often this id was given out before */
    uint32_t next_free;
    uint8_t marked;
    uint8_t fresh; /* made since the last sweep */
    uint8_t again; /* came up since then, perhaps soon after it was made */
} stack;

static struct {
    stack *items; /* owned; 0 is IA_NO_STACK */
    uint32_t count, capacity, free;
    size_t frames; /* of all stacks */
    ia_ptrmap of_frames; /* by the hash of its frames */
    ia_ptrmap of_path;   /* by that of a raw stack */
    uint32_t pins;
    uint64_t lost;
} table;

uint32_t ia_stacks_epoch;
/* Written with the lock. */
atomic_uint ia_stacks_made;
atomic_uint ia_stacks_in_use; /* marked, or old and came up again */

int
ia_stacks_init(void)
{
    if (table.count > 0)
        return 0;
    if (IA_CLEAR_ROOM(table.items, table.capacity, 1) < 0)
        return -1;
    table.count = 1;
    return 0;
}

static inline uint64_t
mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

/* -- stacks --------------------------------------------------------------- */

static uint32_t
take_stack(void)
{
    uint32_t i = table.free;
    if (i != 0) {
        table.free = table.items[i].next_free;
        return i;
    }
    if (IA_CLEAR_ROOM(table.items, table.capacity, table.count + 1) < 0)
        return IA_NO_STACK;
    return table.count++;
}

static void
give_stack(uint32_t i)
{
    uint32_t serial = table.items[i].serial + 1;
    table.items[i] = (stack){.serial = serial, .next_free = table.free};
    if (serial != 0)
        table.free = i;
}

/* The sources of a stack while it is put together; each is held. */
typedef struct {
    uint32_t items[IA_MAX_FRAMES];
    int count;
    int short_of; /* memory was, for one of them or for the stack */
} frame_list;

/* A line that the stack has already, further in, is let go of again. */
static void
add_frame(frame_list *list, uint32_t frame)
{
    list->short_of |= frame == IA_NO_SOURCE;
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == frame) {
            ia_source_release(frame);
            return;
        }
    if (frame != IA_NO_SOURCE && list->count < IA_MAX_FRAMES)
        list->items[list->count++] = frame;
}

static void
let_go(const frame_list *list)
{
    for (int i = 0; i < list->count; i++)
        ia_source_release(list->items[i]);
}

/* The user's line is the innermost frame outside torch and installed
 * packages; a program without one is its innermost frame. */
static int
find_user(const frame_list *list)
{
    for (int i = 0; i < list->count; i++)
        if (!ia_source_get(list->items[i])->library)
            return i;
    return 0;
}

/* The libraries' frame farthest from the user's, else the outermost. */
static int
least_wanted(const frame_list *list)
{
    int user = find_user(list), farthest = -1, worst = list->count - 1;
    for (int i = 0; i < list->count; i++) {
        int away = i < user ? user - i : i - user;
        if (away > farthest && ia_source_get(list->items[i])->library) {
            farthest = away;
            worst = i;
        }
    }
    return worst;
}

static void
cut_to_size(frame_list *list)
{
    while (list->count > IA_KEPT_FRAMES) {
        int i = least_wanted(list);
        ia_source_release(list->items[i]);
        list->count--;
        memmove(&list->items[i], &list->items[i + 1],
                (size_t)(list->count - i) * sizeof *list->items);
    }
}

/* Takes over the list's holds. */
static uint32_t
make_stack(frame_list *list, uint64_t hash)
{
    uint32_t user = (uint32_t)find_user(list);
    size_t size = (size_t)list->count * sizeof *list->items;
    uint32_t site = ia_site_of_source(list->items[user]);
    uint32_t *frames = site != IA_NO_SITE ? malloc(size) : NULL;
    uint32_t i = frames != NULL ? take_stack() : IA_NO_STACK;
    if (i == IA_NO_STACK)
        goto fail;
    if (ia_ptrmap_set(&table.of_frames, hash, i) < 0) {
        give_stack(i);
        goto fail;
    }
    memcpy(frames, list->items, size);
    table.items[i].shown = (ia_stack){
        .frames = frames,
        .site = site,
        .count = (uint16_t)list->count,
        .user = (uint16_t)user,
    };
    table.items[i].hash = hash;
    table.items[i].fresh = 1;
    table.frames += (size_t)list->count;
    ia_stacks_made++;
    return i;
fail:
    free(frames);
    let_go(list);
    list->short_of = 1;
    return IA_NO_STACK;
}

static int
is_stack_of(uint32_t i, const frame_list *list)
{
    const ia_stack *s = &table.items[i].shown;
    return s->count == list->count &&
           memcmp(s->frames, list->items,
                  (size_t)list->count * sizeof *list->items) == 0;
}

/* The stack of these sources, whose holds it takes over. */
static uint32_t
intern_list(frame_list *list)
{
    uint64_t hash = 7;
    if (list->count == 0)
        return IA_NO_STACK;
    cut_to_size(list);
    for (int i = 0; i < list->count; i++)
        hash = mix(hash, list->items[i]);
    uint32_t i = ia_ptrmap_get(&table.of_frames, hash |= 1);
    if (i == IA_PTRMAP_NONE || !is_stack_of(i, list))
        return make_stack(list, hash);
    let_go(list);
    table.items[i].again = 1;
    return i;
}

static uint32_t
stack_of_path(uint64_t hash)
{
    uint32_t i = ia_ptrmap_get(&table.of_path, hash);
    if (i != IA_PTRMAP_NONE && !table.items[i].again)
        table.items[i].again = 1;
    return i;
}

/* The list's stack, known by this path from now on.  One that is not whole is
 * for this time alone, and counted. */
static uint32_t
note_path(uint64_t hash, frame_list *list)
{
    uint32_t stack = intern_list(list);
    if (table.of_path.used >= CACHED_PATHS)
        ia_ptrmap_free(&table.of_path);
    if (list->short_of)
        table.lost++;
    else if (stack != IA_NO_STACK)
        ia_ptrmap_set(&table.of_path, hash, stack); /* or next time */
    return stack;
}

/* Returns whether it is whole. */
static IA_SELDOM int
read_stack(const ia_raw_stack *raw, uint32_t *stack)
{
    frame_list list;
    list.count = list.short_of = 0;
    for (int i = 0; i < raw->count; i++)
        add_frame(&list, ia_source_of_frame(ia_raw_frame_at(raw, i)));
    *stack = note_path(raw->hash, &list);
    return !list.short_of;
}

uint32_t
ia_stack_look_up(ia_raw_stack *raw)
{
    if (raw->count == 0)
        return IA_NO_STACK;
    uint32_t id = stack_of_path(raw->hash);
    int whole = id != IA_PTRMAP_NONE || read_stack(raw, &id);
    raw->stack = id;
    raw->epoch = whole ? ia_stacks_epoch : ia_stacks_epoch - 1;
    raw->site = ia_stack_site(id);
    return id;
}

void
ia_stacks_forget_paths(void)
{
    ia_ptrmap_free(&table.of_path);
    ia_sources_forget_code();
}

/* No frame of Python's, so no file of the user's. */
#define BEHIND "<autograd>"

uint32_t
ia_stack_behind(uint32_t stack, const char *function, size_t length)
{
    uint64_t hash = mix(mix(5, stack), (uint64_t)(uintptr_t)function) | 1;
    frame_list list;
    char name[256];
    uint32_t id = stack_of_path(hash);
    if (id != IA_PTRMAP_NONE)
        return id;
    size_t n = length < sizeof name - 1 ? length : sizeof name - 1;
    memcpy(name, function, n);
    name[n] = 0;
    list.count = list.short_of = 0;
    add_frame(&list, ia_source_of_text(BEHIND, name, 1));
    for (int i = 0; i < table.items[stack].shown.count; i++) {
        uint32_t frame = table.items[stack].shown.frames[i];
        ia_source_hold(frame);
        add_frame(&list, frame);
    }
    return note_path(hash, &list);
}

uint64_t
ia_stacks_lost(void)
{
    return table.lost;
}

void
ia_stacks_forget_lost(void)
{
    table.lost = 0;
}

uint32_t
ia_stack_site(uint32_t stack)
{
    return table.items[stack].shown.site;
}

const ia_stack *
ia_stack_get(uint32_t stack)
{
    return &table.items[stack].shown;
}

const ia_source_frame *
ia_stack_frame(const ia_stack *stack, int i)
{
    return ia_source_get(stack->frames[i]);
}

/* -- numbers --------------------------------------------------------------- */

uint64_t
ia_stack_number(uint32_t stack)
{
    return (uint64_t)table.items[stack].serial << 32 | stack;
}

uint32_t
ia_stack_of_number(uint64_t number)
{
    uint32_t i = (uint32_t)number;
    if (number == IA_NO_STACK)
        return IA_NO_STACK;
    return i < table.count && table.items[i].serial == number >> 32 &&
                   table.items[i].shown.frames != NULL
               ? i
               : IA_DROPPED;
}

/* -- sweeping -------------------------------------------------------------- */

void
ia_stacks_pin(void)
{
    table.pins++;
}

void
ia_stacks_unpin(void)
{
    if (table.pins > 0) /* a fork may have lost count */
        table.pins--;
}

void
ia_stacks_after_fork(void)
{
    table.pins = 0;
}

int
ia_stacks_are_pinned(void)
{
    return table.pins > 0;
}

void
ia_stack_mark(uint32_t stack)
{
    table.items[stack].marked = 1;
}

static void
drop_stack(uint32_t i)
{
    stack *s = &table.items[i];
    if (ia_ptrmap_get(&table.of_frames, s->hash) == i)
        ia_ptrmap_pop(&table.of_frames, s->hash);
    for (int n = 0; n < s->shown.count; n++)
        ia_source_release(s->shown.frames[n]);
    table.frames -= s->shown.count;
    free(s->shown.frames);
    give_stack(i);
}

void
ia_stacks_sweep(void)
{
    int dropped = 0;
    uint32_t in_use = 0;
    for (uint32_t i = 1; i < table.count; i++) {
        stack *s = &table.items[i];
        if (s->shown.frames == NULL)
            continue;
        if (!s->marked && !s->again && !s->fresh) {
            drop_stack(i);
            dropped = 1;
            continue;
        }
        ia_site_mark(s->shown.site);
        in_use += s->marked || (s->again && !s->fresh);
        s->marked = s->again = s->fresh = 0;
    }
    ia_stacks_made = 0;
    ia_stacks_in_use = in_use;
    if (dropped)
        ia_stacks_forget_paths();
    ia_stacks_epoch++;
}

size_t
ia_stacks_bytes(void)
{
    return table.capacity * sizeof *table.items +
           table.frames * sizeof(uint32_t) +
           ia_ptrmap_bytes(&table.of_frames) +
           ia_ptrmap_bytes(&table.of_path);
}
