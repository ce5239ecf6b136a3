/* References by which libraries' modules lead to what was met before them.
 *
 * Most of a heap hangs on libraries' modules, and a first pass goes through
 * them last.  What it meets there for the first time nothing else leads to, so
 * it stays as it is wherever else references are cut.  A second pass takes it
 * as reached, and of all that goes on there it needs these references alone.
 */
#ifndef IA_CROSSINGS_H
#define IA_CROSSINGS_H

#include "../base/bitmap.h"
#include "refs.h"

typedef struct {
    ia_bitmap *before; /* owned; what was met before the libraries */
    ia_bitmap *met;    /* owned; of that, what has a crossing */
    uintptr_t *refs;   /* owned; with tag */
    uint32_t count, capacity;
    uint32_t first, end; /* entries that were met in libraries */
    int open;            /* the pass is in there */
    int failed;          /* memory was short: some are missing */
} ia_crossings;

/* The pass comes to the libraries, and leaves them: so many entries by then. */
void ia_crossings_begin(ia_crossings *, const ia_bitmap *seen,
                        uint32_t entries);
void ia_crossings_end(ia_crossings *, uint32_t entries);
void ia_crossings_free(ia_crossings *);

void ia_crossings_add(ia_crossings *, uintptr_t ref);

/* The walk leads to what it has met already. */
static inline void
ia_crossings_note(ia_crossings *c, uintptr_t ref)
{
    if (c != NULL && c->open && ia_bitmap_has(c->before, IA_ADDRESS(ref)))
        ia_crossings_add(c, ref);
}

/* Whether all of them were noted. */
static inline int
ia_crossings_are_known(const ia_crossings *c)
{
    return c != NULL && c->before != NULL && !c->failed;
}

#endif /* IA_CROSSINGS_H */
