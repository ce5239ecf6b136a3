/* Whose code runs: this package's own, a library's or the user's; and what our
 * objects weigh. */
#ifndef IA_OWN_H
#define IA_OWN_H

#include "../ledger/frames.h"
#include "tally.h"
#include "walk.h"

/* Files under this prefix are ours and hold nothing of the user's. */
int ia_own_set_prefix(const char *);
int ia_file_is_own(const char *file);
int ia_module_is_own(const char *name);
/* Does a frame run code of this package? */
int ia_frame_is_own(ia_frame *);
/* Is it a library's?  Take the ledger's lock. */
int ia_file_is_library(const char *file);
int ia_frame_is_library(ia_frame *);

/* Counts our objects apart; before the walk, which would count them as the
 * program's, and after it has hidden the modules' names. */
void ia_weigh_own(ia_tally *, const ia_walk *);

#endif /* IA_OWN_H */
