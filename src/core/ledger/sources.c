/* Frames as text, and who holds them. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/ptrmap.h"
#include "../base/utf8.h"
#include "frames.h"
#include "libraries.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

/* Instructions whose frame is known without a look at their code: a program
 * has some thousands that allocate; beyond it all are looked up anew. */
#define CACHED_FRAMES ((uint32_t)1 << 15)

typedef struct {
    char *text; /* owned; NULL = free */
    uint64_t hash;
    uint32_t holders; /* frames */
    uint32_t next_free;
} held_string;

typedef struct {
    ia_source_frame shown; /* its strings are those below */
    uint64_t hash;
    uint32_t file, function; /* strings */
    uint32_t holders;        /* 0 = free */
    uint32_t next_free;
} frame;

static struct {
    held_string *strings; /* owned; 0 is none */
    uint32_t nstrings, string_capacity, free_string;
    size_t string_bytes;
    frame *frames; /* owned; 0 is none */
    uint32_t nframes, frame_capacity, free_frame;
    ia_ptrmap string_of_hash, frame_of_hash;
    ia_ptrmap frame_of_code; /* by code, its life and instruction; holds */
} table;

static inline uint64_t
mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t
hash_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = mix(h, (unsigned char)*text);
    return h;
}

/* -- strings -------------------------------------------------------------- */

/* The index of a place in a growing array, taken from its free list or added
 * to its end; 0 when memory is short. */
static uint32_t
take_place(void *array, uint32_t *count, uint32_t *capacity, size_t item)
{
    if (*count == 0)
        *count = 1;
    if (*count >= *capacity &&
        ia_array_grow(array, capacity, (uint64_t)*count + 1, item) < 0)
        return 0;
    return (*count)++;
}

static uint32_t
take_string(void)
{
    uint32_t i = table.free_string;
    if (i != 0)
        table.free_string = table.strings[i].next_free;
    else
        i = take_place(&table.strings, &table.nstrings,
                       &table.string_capacity, sizeof *table.strings);
    if (i != 0)
        table.strings[i] = (held_string){0};
    return i;
}

static void
give_string(uint32_t i)
{
    table.strings[i] = (held_string){.next_free = table.free_string};
    table.free_string = i;
}

/* The string, held once more, or 0. */
static uint32_t
hold_string(const char *text)
{
    uint64_t hash = hash_text(1, text) | 1;
    uint32_t i = ia_ptrmap_get(&table.string_of_hash, hash);
    if (i != IA_PTRMAP_NONE && strcmp(table.strings[i].text, text) == 0) {
        table.strings[i].holders++;
        return i;
    }
    char *copy = strdup(text);
    i = copy != NULL ? take_string() : 0;
    if (i == 0 || ia_ptrmap_set(&table.string_of_hash, hash, i) < 0) {
        if (i != 0)
            give_string(i);
        free(copy);
        return 0;
    }
    table.strings[i] = (held_string){.text = copy, .hash = hash, .holders = 1};
    table.string_bytes += strlen(copy) + 1;
    return i;
}

static void
release_string(uint32_t i)
{
    held_string *s = &table.strings[i];
    if (i == 0 || --s->holders > 0)
        return;
    if (ia_ptrmap_get(&table.string_of_hash, s->hash) == i)
        ia_ptrmap_pop(&table.string_of_hash, s->hash);
    table.string_bytes -= strlen(s->text) + 1;
    free(s->text);
    give_string(i);
}

/* -- frames ---------------------------------------------------------------- */

static uint32_t
take_frame(void)
{
    uint32_t i = table.free_frame;
    if (i != 0)
        table.free_frame = table.frames[i].next_free;
    else
        i = take_place(&table.frames, &table.nframes,
                       &table.frame_capacity, sizeof *table.frames);
    if (i != 0)
        table.frames[i] = (frame){0};
    return i;
}

static void
give_frame(uint32_t i)
{
    table.frames[i] = (frame){.next_free = table.free_frame};
    table.free_frame = i;
}

static int
is_same(const ia_source_frame *a, const ia_source_frame *b)
{
    return a->line == b->line && a->library == b->library &&
           strcmp(a->file, b->file) == 0 &&
           strcmp(a->function, b->function) == 0;
}

/* Takes over the strings' holds. */
static uint32_t
add_frame(uint32_t file, uint32_t function, const ia_source_frame *shown,
          uint64_t hash)
{
    uint32_t i = file != 0 && function != 0 ? take_frame() : 0;
    if (i != 0 && ia_ptrmap_set(&table.frame_of_hash, hash, i) == 0) {
        table.frames[i] = (frame){*shown, hash, file, function, 1, 0};
        table.frames[i].shown.file = table.strings[file].text;
        table.frames[i].shown.function = table.strings[function].text;
        return i;
    }
    if (i != 0)
        give_frame(i);
    release_string(file);
    release_string(function);
    return IA_NO_SOURCE;
}

static uint32_t
hold_frame(const ia_source_frame *shown)
{
    uint64_t hash = mix(hash_text(hash_text(4, shown->file), shown->function),
                        (uint64_t)shown->line << 1 | (uint64_t)shown->library);
    uint32_t i = ia_ptrmap_get(&table.frame_of_hash, hash |= 1);
    if (i == IA_PTRMAP_NONE || !is_same(&table.frames[i].shown, shown))
        return add_frame(hold_string(shown->file),
                         hold_string(shown->function), shown, hash);
    table.frames[i].holders++;
    return i;
}

uint32_t
ia_source_of_text(const char *file, const char *function, int library)
{
    return hold_frame(&(ia_source_frame){file, function, 0, library});
}

uint32_t
ia_source_of_frame(const ia_raw_frame *raw)
{
    char file[IA_FILE_NAME], function[IA_FILE_NAME];
    PyCodeObject *code = raw->code;
    uint64_t key = mix(mix(6, (uint64_t)(uintptr_t)code),
                       (uint64_t)(uint32_t)raw->instr << 32 |
                           ia_code_life(code)) | 1;
    uint32_t i = ia_ptrmap_get(&table.frame_of_code, key);
    if (i != IA_PTRMAP_NONE) {
        table.frames[i].holders++;
        return i;
    }
    ia_source_frame shown = {
        .file = ia_text_copy(code->co_filename, file, sizeof file),
        .function = ia_text_copy(code->co_qualname, function, sizeof function),
        .line = ia_code_line(code, raw->instr),
    };
    shown.library = ia_library_has(shown.file);
    i = hold_frame(&shown);
    if (table.frame_of_code.used >= CACHED_FRAMES)
        ia_sources_forget_code();
    if (i != IA_NO_SOURCE && ia_ptrmap_set(&table.frame_of_code, key, i) == 0)
        ia_source_hold(i);
    return i;
}

void
ia_sources_forget_code(void)
{
    const ia_ptrmap *map = &table.frame_of_code;
    for (size_t i = 0; map->keys != NULL && i <= map->mask; i++)
        if (map->keys[i] != 0)
            ia_source_release(map->values[i]);
    ia_ptrmap_free(&table.frame_of_code);
}

void
ia_source_hold(uint32_t i)
{
    table.frames[i].holders++;
}

void
ia_source_release(uint32_t i)
{
    frame *f = &table.frames[i];
    if (i == IA_NO_SOURCE || --f->holders > 0)
        return;
    if (ia_ptrmap_get(&table.frame_of_hash, f->hash) == i)
        ia_ptrmap_pop(&table.frame_of_hash, f->hash);
    release_string(f->file);
    release_string(f->function);
    give_frame(i);
}

const ia_source_frame *
ia_source_get(uint32_t i)
{
    return &table.frames[i].shown;
}

/* IPython names a cell's file after its text, but puts the number of the run
 * before it. */
static uint64_t
hash_file(const char *file)
{
    static const char cell[] = "<ipython-input-";
    uint64_t h = 2;
    if (strncmp(file, cell, sizeof cell - 1) == 0) {
        h = hash_text(h, cell);
        file += sizeof cell - 1;
        file += strspn(file, "0123456789");
    }
    return hash_text(h, file);
}

uint64_t
ia_source_hash(uint32_t i)
{
    const ia_source_frame *f = &table.frames[i].shown;
    return mix(hash_text(hash_file(f->file), f->function),
               (uint64_t)f->line) | 1;
}

size_t
ia_sources_bytes(void)
{
    return table.frame_capacity * sizeof *table.frames +
           table.string_capacity * sizeof *table.strings +
           table.string_bytes + ia_ptrmap_bytes(&table.frame_of_hash) +
           ia_ptrmap_bytes(&table.string_of_hash) +
           ia_ptrmap_bytes(&table.frame_of_code);
}
