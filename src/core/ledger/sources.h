/* Sources: the frames of stacks as text, each of them once.
 *
 * A source frame is a file, a function and a line in memory of our own: no
 * reference to anybody's code is kept.  It lives while a stack or a site
 * holds it; so do its strings, which are read under the lock or while
 * ia_stacks_pin() keeps all of them.
 *
 * Everything expects the ledger's lock to be held.
 */
#ifndef IA_SOURCES_H
#define IA_SOURCES_H

#include "frames.h"

#include <stddef.h>
#include <stdint.h>

#define IA_NO_SOURCE 0u

typedef struct {
    const char *file;     /* as ia_text() has it */
    const char *function; /* qualified name */
    int line;
    int library;          /* torch, the standard library, installed package */
} ia_source_frame;

/* The frame, held once more; IA_NO_SOURCE when memory is short. */
uint32_t ia_source_of_frame(const ia_raw_frame *);
uint32_t ia_source_of_text(const char *file, const char *function,
                           int library);
void ia_source_hold(uint32_t);
void ia_source_release(uint32_t);

const ia_source_frame *ia_source_get(uint32_t);
/* The same line of the same function?  A notebook's cell that is run again is
 * the same source.  Never 0. */
uint64_t ia_source_hash(uint32_t);

/* What is known of code is looked up anew: code may have ended unseen, or a
 * sweep drops what only this holds. */
void ia_sources_forget_code(void);

size_t ia_sources_bytes(void);

#endif /* IA_SOURCES_H */
