/* Where every retaining path starts: modules, running frames, threads. */
#ifndef IA_ROOTS_H
#define IA_ROOTS_H

#include "../ledger/frames.h"
#include "walk.h"

/* Fills the list, the user's own first: __main__, frames from the outermost,
 * the user's modules; then libraries' frames and modules; then what C code
 * interned.  Names are copied, references are not taken: good while the GIL
 * is held.  0, or -1 when memory is short. */
int ia_roots_collect(ia_roots *);
void ia_roots_free(ia_roots *);
/* The new root, or NULL when memory is short. */
ia_root *ia_roots_add(ia_roots *, ia_root_kind, uintptr_t ref, int user,
                      const char *name);

/* Walks from all of them: the user's own first and to the end, so that a path
 * through a library is taken only where there is no other; then from all calls
 * and threads; from libraries' modules, on which most of a heap hangs, last.
 * Where the roots are `near`, these wait for the second function. */
void ia_walk_from_roots(ia_walk *);
void ia_walk_from_libraries(ia_walk *);
/* The same for a second pass with cuts, that need not go through the libraries
 * where the first has noted enough of them: crossings.h. */
void ia_walk_again(ia_walk *, const ia_walk *first);

#endif /* IA_ROOTS_H */
