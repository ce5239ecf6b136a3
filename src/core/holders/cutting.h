/* Which references are cut to measure what a holder keeps. */
#ifndef IA_CUTTING_H
#define IA_CUTTING_H

#include "holders.h"

/* Fills in the holders' cuts; 0, or -1 when memory is short. */
int ia_holders_cut(const ia_walk *, const ia_groups *, ia_holders *);

/* Appends one cut to a growing array; 0, or -1 when memory is short. */
int ia_cut_add(ia_cut **cuts, uint32_t *capacity, uint32_t *count, ia_cut);
/* Is it a tensor or an array? */
int ia_is_value(uintptr_t ref);

#endif /* IA_CUTTING_H */
