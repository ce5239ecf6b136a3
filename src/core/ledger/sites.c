/* Interning of allocation stacks and of the user's lines behind them. */

#include "../base/compat.h"
#include "../base/ptrmap.h"
#include "frames.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

/* A growing array; index 0 is reserved for "none". */
#define GROW(array, used, capacity)                                          \
    ((used) < (capacity) ||                                                  \
     grow((void **)&(array), &(capacity), sizeof *(array)) == 0)

typedef struct {
    uint32_t frame; /* the user's frame in the arena */
} site_entry;

static struct {
    ia_stack *stacks;
    uint32_t nstacks, stack_capacity;
    ia_source_frame *frames; /* stacks name runs of these */
    uint32_t nframes, frame_capacity;
    site_entry *sites;
    uint32_t nsites, site_capacity;
    char **strings; /* owned */
    uint32_t nstrings, string_capacity;
    size_t string_bytes;
    ia_ptrmap stack_of_hash;
    ia_ptrmap site_of_hash;
    ia_ptrmap string_of_hash;
    char **libraries;
    size_t nlibraries;
    char **user_files;
    size_t nuser_files;
} table;

static int
grow(void **array, uint32_t *capacity, size_t item)
{
    uint32_t bigger = *capacity ? *capacity * 2 : 256;
    void *moved = realloc(*array, bigger * item);
    if (moved == NULL)
        return -1;
    *array = moved;
    *capacity = bigger;
    return 0;
}

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

int
ia_sites_init(void)
{
    if (table.nstacks > 0)
        return 0;
    if (!GROW(table.stacks, table.nstacks, table.stack_capacity) ||
        !GROW(table.sites, table.nsites, table.site_capacity))
        return -1;
    table.stacks[0] = (ia_stack){0};
    table.sites[0] = (site_entry){UINT32_MAX};
    table.nstacks = table.nsites = 1;
    return 0;
}

/* -- library or user code ------------------------------------------------ */

static int
replace_list(char ***list, size_t *n, const char *const *items, size_t count)
{
    char **copy = calloc(count ? count : 1, sizeof *copy);
    size_t done = 0;
    if (copy == NULL)
        return -1;
    for (; done < count; done++)
        if ((copy[done] = strdup(items[done])) == NULL)
            break;
    if (done < count) {
        while (done > 0)
            free(copy[--done]);
        free(copy);
        return -1;
    }
    for (size_t i = 0; i < *n; i++)
        free((*list)[i]);
    free(*list);
    *list = copy;
    *n = count;
    return 0;
}

int
ia_sites_set_libraries(const char *const *prefixes, size_t count)
{
    return replace_list(&table.libraries, &table.nlibraries, prefixes, count);
}

int
ia_sites_set_user_files(const char *const *files, size_t count)
{
    return replace_list(&table.user_files, &table.nuser_files, files, count);
}

/* Code without a file is the user's where a person can have typed it. */
static int
is_typed_in(const char *file)
{
    return strcmp(file, "<stdin>") == 0 || strcmp(file, "<string>") == 0 ||
           strncmp(file, "<ipython", 8) == 0 ||
           strncmp(file, "<doctest", 8) == 0 ||
           strncmp(file, "<python-input", 13) == 0;
}

int
ia_sites_is_library(const char *file)
{
    if (file[0] == '<')
        return !is_typed_in(file);
    for (size_t i = 0; i < table.nuser_files; i++)
        if (strcmp(file, table.user_files[i]) == 0)
            return 0;
    for (size_t i = 0; i < table.nlibraries; i++)
        if (strncmp(file, table.libraries[i], strlen(table.libraries[i])) ==
            0)
            return 1;
    return 0;
}

/* -- first sight of a frame ---------------------------------------------- */

/* UTF-8 of a str without its API: this runs without the GIL. */
static size_t
encode(PyObject *text, char *out, size_t size)
{
    size_t n = 0;
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    for (Py_ssize_t i = 0; i < length && n + 5 < size; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (c < 0x80) {
            out[n++] = (char)c;
        } else if (c < 0x800) {
            out[n++] = (char)(0xC0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 0x3F));
        } else if (c >= 0xD800 && c < 0xE000) {
            out[n++] = '?'; /* a lone surrogate: an undecodable file name */
        } else if (c < 0x10000) {
            out[n++] = (char)(0xE0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 0x3F));
            out[n++] = (char)(0x80 | (c & 0x3F));
        } else {
            out[n++] = (char)(0xF0 | c >> 18);
            out[n++] = (char)(0x80 | (c >> 12 & 0x3F));
            out[n++] = (char)(0x80 | (c >> 6 & 0x3F));
            out[n++] = (char)(0x80 | (c & 0x3F));
        }
    }
    out[n] = 0;
    return n;
}

static const char *
intern_text(const char *text, size_t length)
{
    uint64_t hash = hash_text(1, text) | 1;
    uint32_t id = ia_ptrmap_get(&table.string_of_hash, hash);
    if (id != IA_PTRMAP_NONE && strcmp(table.strings[id], text) == 0)
        return table.strings[id];
    if (!GROW(table.strings, table.nstrings, table.string_capacity))
        return "?";
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return "?";
    memcpy(copy, text, length + 1);
    table.strings[table.nstrings] = copy;
    table.string_bytes += length + 1;
    ia_ptrmap_set(&table.string_of_hash, hash, table.nstrings);
    table.nstrings++;
    return copy;
}

static const char *
intern_string(PyObject *text)
{
    char buffer[4096];
    if (text == NULL || !PyUnicode_Check(text))
        return "?";
    return intern_text(buffer, encode(text, buffer, sizeof buffer));
}

static void
resolve_frame(const ia_raw_frame *raw, ia_source_frame *out)
{
    PyCodeObject *code = raw->code;
    out->file = intern_string(code->co_filename);
    out->function = intern_string(code->co_qualname);
    out->line = ia_code_line(code, raw->instr);
    out->library = ia_sites_is_library(out->file);
}

/* The user's line is the innermost frame outside torch and installed
 * packages; a program without one is its innermost frame. */
static int
choose_user_frame(const ia_source_frame *frames, int count)
{
    for (int i = 0; i < count; i++)
        if (!frames[i].library)
            return i;
    return 0;
}

/* A cell that is run again is the same source: IPython names its file after
 * the text, but puts the number of the run before it. */
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

static uint32_t
intern_site(uint32_t frame)
{
    const ia_source_frame *f = &table.frames[frame];
    uint64_t hash = mix(hash_text(hash_file(f->file), f->function),
                        (uint64_t)f->line) | 1;
    uint32_t id = ia_ptrmap_get(&table.site_of_hash, hash);
    if (id != IA_PTRMAP_NONE)
        return id;
    if (!GROW(table.sites, table.nsites, table.site_capacity))
        return IA_NO_SITE;
    if (ia_ptrmap_set(&table.site_of_hash, hash, table.nsites) < 0)
        return IA_NO_SITE;
    table.sites[table.nsites].frame = frame;
    return table.nsites++;
}

/* -- stacks -------------------------------------------------------------- */

void
ia_stack_top(ia_raw_frame *out)
{
    PyThreadState *tstate = PyGILState_GetThisThreadState();
    ia_frame *f = tstate ? ia_frame_top(tstate) : NULL;
    *out = (ia_raw_frame){0};
    if (f != NULL)
        *out = (ia_raw_frame){ia_frame_code(f), ia_frame_instr(f)};
}

/* The last bytes of a str or bytes, whatever they mean. */
static inline uint64_t
tail_of(const void *data, Py_ssize_t size)
{
    uint64_t tail = (uint64_t)size;
    if (size >= (Py_ssize_t)sizeof tail)
        memcpy(&tail, (const char *)data + size - sizeof tail, sizeof tail);
    else
        memcpy(&tail, data, (size_t)size);
    return tail;
}

/* Tells code from other code that lies where it lay: notebooks and exec()
 * free code and get its memory again, line table and all.  They differ in
 * the file's name or in the lines.  Asked of the code of modules and cells
 * only: functions are defined anew far more rarely, and are most of a stack. */
static inline uint64_t
fingerprint(PyCodeObject *code)
{
    PyObject *file = code->co_filename, *lines = code->co_linetable;
    Py_ssize_t length = PyUnicode_GET_LENGTH(file);
    /* Not the ".py" that they all end in. */
    Py_ssize_t size = (length > 3 ? length - 3 : length) *
                      PyUnicode_KIND(file);
    uint64_t h = tail_of(PyUnicode_DATA(file), size);
    uint64_t head = 0;
    Py_ssize_t n = PyBytes_GET_SIZE(lines);
    memcpy(&head, PyBytes_AS_STRING(lines),
           (size_t)(n < 8 ? n : 8));
    return mix(mix(h, (uint64_t)length << 32 ^ (uint64_t)n), head);
}

void
ia_stack_capture(ia_raw_stack *out)
{
    out->count = 0;
    out->hash = 3;
    PyThreadState *tstate = PyGILState_GetThisThreadState();
    if (tstate == NULL)
        return;
    ia_frame *f = ia_frame_top(tstate);
    uint64_t h = 3;
    int n = 0;
    for (; f != NULL && n < IA_MAX_FRAMES; f = ia_frame_back(f)) {
        PyCodeObject *code = ia_frame_code(f);
        int instr = ia_frame_instr(f);
        out->frames[n].code = code;
        out->frames[n].instr = instr;
        n++;
        h = mix(h, (uint64_t)(uintptr_t)code ^
                       (uint64_t)(uintptr_t)code->co_linetable << 17);
        h = mix(h, (uint64_t)instr << 32 ^ (uint64_t)code->co_firstlineno);
        if (!(code->co_flags & CO_NEWLOCALS))
            h = mix(h, fingerprint(code));
    }
    out->count = n;
    out->hash = h | 1;
}

/* A stack of the arena's last frames, from `first` on. */
static uint32_t
close_stack(uint32_t first, uint64_t hash)
{
    int count = (int)(table.nframes - first);
    int user = choose_user_frame(&table.frames[first], count);
    uint32_t site = intern_site(first + (uint32_t)user);
    if (!GROW(table.stacks, table.nstacks, table.stack_capacity) ||
        ia_ptrmap_set(&table.stack_of_hash, hash, table.nstacks) < 0)
        return IA_NO_STACK;
    table.stacks[table.nstacks] = (ia_stack){
        .hash = hash,
        .site = site,
        .first = first,
        .frames = (uint16_t)count,
        .user = (uint16_t)user,
    };
    return table.nstacks++;
}

static uint32_t
add_stack(const ia_raw_stack *raw)
{
    uint32_t first = table.nframes;
    for (int i = 0; i < raw->count; i++) {
        if (!GROW(table.frames, table.nframes, table.frame_capacity))
            return IA_NO_STACK;
        resolve_frame(&raw->frames[i], &table.frames[table.nframes++]);
    }
    return close_stack(first, raw->hash);
}

uint32_t
ia_stack_intern(const ia_raw_stack *raw)
{
    if (raw->count == 0)
        return IA_NO_STACK;
    uint32_t id = ia_ptrmap_get(&table.stack_of_hash, raw->hash);
    return id != IA_PTRMAP_NONE ? id : add_stack(raw);
}

/* No frame of Python's, so no file of the user's. */
#define BEHIND "<autograd>"

static uint32_t
add_stack_behind(uint32_t stack, const char *function, size_t length,
                 uint64_t hash)
{
    char name[256];
    size_t n = length < sizeof name - 1 ? length : sizeof name - 1;
    memcpy(name, function, n);
    name[n] = 0;
    ia_stack caller = table.stacks[stack];
    uint32_t first = table.nframes;
    for (int i = -1; i < caller.frames && i + 1 < IA_MAX_FRAMES; i++) {
        if (!GROW(table.frames, table.nframes, table.frame_capacity))
            return IA_NO_STACK;
        ia_source_frame *frame = &table.frames[table.nframes++];
        if (i >= 0)
            *frame = table.frames[caller.first + (uint32_t)i];
        else
            *frame = (ia_source_frame){
                .file = intern_text(BEHIND, sizeof BEHIND - 1),
                .function = intern_text(name, n),
                .library = 1,
            };
    }
    return close_stack(first, hash);
}

uint32_t
ia_stack_behind(uint32_t stack, const char *function, size_t length)
{
    uint64_t hash = mix(mix(5, stack), (uint64_t)(uintptr_t)function) | 1;
    uint32_t id = ia_ptrmap_get(&table.stack_of_hash, hash);
    return id != IA_PTRMAP_NONE
               ? id
               : add_stack_behind(stack, function, length, hash);
}

uint32_t
ia_stack_site(uint32_t stack)
{
    return table.stacks[stack].site;
}

const ia_stack *
ia_stack_get(uint32_t stack)
{
    return &table.stacks[stack];
}

const ia_source_frame *
ia_stack_frame(const ia_stack *stack, int i)
{
    return &table.frames[stack->first + (uint32_t)i];
}

uint32_t
ia_stack_count(void)
{
    return table.nstacks;
}

const ia_source_frame *
ia_site_source(uint32_t site)
{
    return site == IA_NO_SITE ? NULL : &table.frames[table.sites[site].frame];
}

uint32_t
ia_site_count(void)
{
    return table.nsites;
}

size_t
ia_sites_bytes(void)
{
    return table.stack_capacity * sizeof *table.stacks +
           table.frame_capacity * sizeof *table.frames +
           table.site_capacity * sizeof *table.sites +
           table.string_capacity * sizeof *table.strings +
           table.string_bytes + ia_ptrmap_bytes(&table.stack_of_hash) +
           ia_ptrmap_bytes(&table.site_of_hash) +
           ia_ptrmap_bytes(&table.string_of_hash);
}
