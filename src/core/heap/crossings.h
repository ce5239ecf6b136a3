/* References by which libraries' modules lead to what was met before them.
 *
 * Most of a heap hangs on libraries' modules, and a first pass goes through
 * them last.  What it meets there for the first time nothing else leads to, so
 * it stays as it is wherever else references are cut.  A second pass takes it
 * as reached, and of all that goes on there it needs these references alone.
 */
#ifndef IA_CROSSINGS_H
#define IA_CROSSINGS_H

#include "../base/array.h"
#include "../base/bitmap.h"
#include "walk.h"

struct ia_crossings {
    ia_bitmap *before; /* owned; what was met before the libraries */
    ia_bitmap *met;    /* owned; of that, what has a crossing */
    uintptr_t *refs;   /* owned; with tag */
    uint32_t count, capacity;
    uint32_t first, end; /* entries that were met in libraries */
    int open;            /* the pass is in there */
    int failed;          /* memory was short: some are missing */
};

/* The pass comes to the libraries, and leaves them. */
void ia_crossings_begin(struct ia_crossings *, const ia_walk *);
void ia_crossings_end(struct ia_crossings *, const ia_walk *);
void ia_crossings_free(struct ia_crossings *);

void ia_crossings_add(struct ia_crossings *, uintptr_t ref);

/* The walk leads to what it has met already. */
static inline void
ia_crossings_note(struct ia_crossings *c, uintptr_t ref)
{
    if (c != NULL && c->open && ia_bitmap_has(c->before, IA_ADDRESS(ref)))
        ia_crossings_add(c, ref);
}

/* Whether a second pass with these cuts may do without the libraries: all of
 * them are made elsewhere. */
int ia_crossings_suffice(const struct ia_crossings *, const ia_cut *,
                         uint32_t count);
/* Takes as reached what was met in libraries, before a second pass. */
void ia_crossings_hide(const struct ia_crossings *, const ia_walk *full,
                       ia_walk *);
/* Goes on from them, after it has been through all else. */
void ia_crossings_follow(const struct ia_crossings *, ia_walk *);

#endif /* IA_CROSSINGS_H */
