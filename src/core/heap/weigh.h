/* What a walk has reached, weighed. */
#ifndef IA_WEIGH_H
#define IA_WEIGH_H

#include "tally.h"
#include "walk.h"

/* Adds what a walk that had this tally has reached, and what the collector
 * lists besides.  0, or -1 when memory is short. */
int ia_weigh(ia_tally *, const ia_walk *);

#endif /* IA_WEIGH_H */
