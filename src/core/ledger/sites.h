/* Sites: which line of the user's program allocated a storage.
 *
 * A stack is interned on the hot path by a hash over its frames' (code,
 * instruction, first line, line table); only the first sight of one reads
 * names and lines, into memory of our own.  No reference to anybody's code is
 * kept, so a reused code address must not be taken for the old code: the line
 * table's address and the first line are part of the hash.
 *
 * Every function but ia_stack_capture expects the ledger's lock to be held.
 */
#ifndef IA_SITES_H
#define IA_SITES_H

#include <stdint.h>
#include <stddef.h>

/* Innermost frames that tell one stack from another.  A Trainer's forward is
 * 40 to 60 deep; deeper recursion is cut at the outer end. */
#define IA_MAX_FRAMES 96

#define IA_NO_STACK 0u /* allocated by a thread without a Python frame */
#define IA_NO_SITE 0u

typedef struct {
    const char *file;     /* owned by the string table, UTF-8 */
    const char *function; /* qualified name */
    int line;
    int library;          /* torch, the standard library, installed package */
} ia_source_frame;

typedef struct {
    uint64_t hash;
    uint32_t site;
    uint32_t first;  /* index of the innermost frame in the frame arena */
    uint16_t frames;
    uint16_t user;   /* which of them the site is */
} ia_stack;

/* What was read of one frame on the hot path. */
typedef struct {
    void *code; /* borrowed, valid while the frame is on the chain */
    int instr;
} ia_raw_frame;

typedef struct {
    uint64_t hash;
    int count;
    ia_raw_frame frames[IA_MAX_FRAMES];
} ia_raw_stack;

/* The calling thread's innermost frame only; code NULL when it has none. */
void ia_stack_top(ia_raw_frame *);
/* Reads the calling thread's chain.  Needs neither GIL nor lock. */
void ia_stack_capture(ia_raw_stack *);
/* Stack id of a captured stack; IA_NO_STACK when memory is short. */
uint32_t ia_stack_intern(const ia_raw_stack *);

/* The stack of what a call without a Python frame of its own does, named by
 * `function`, as if `stack` had called it. */
uint32_t ia_stack_behind(uint32_t stack, const char *function, size_t length);

uint32_t ia_stack_site(uint32_t stack);
const ia_stack *ia_stack_get(uint32_t stack);
const ia_source_frame *ia_stack_frame(const ia_stack *, int i);
uint32_t ia_stack_count(void);

/* The user's line behind a site; NULL for IA_NO_SITE. */
const ia_source_frame *ia_site_source(uint32_t site);
uint32_t ia_site_count(void);

/* Path prefixes of library code; copies them.  0 or -1 (memory). */
int ia_sites_set_libraries(const char *const *prefixes, size_t count);
/* Files that are the user's although a library prefix covers them. */
int ia_sites_set_user_files(const char *const *files, size_t count);
int ia_sites_is_library(const char *file);

int ia_sites_init(void);
size_t ia_sites_bytes(void);

#endif /* IA_SITES_H */
