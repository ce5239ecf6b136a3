/* Others of a holder's sort that hold what it holds. */
#ifndef IA_DOUBLES_H
#define IA_DOUBLES_H

#include "holders.h"

/* A hook that is registered again and again has a list of its own each time,
 * and each of these takes in what the first does: the walk met all of it in one
 * of them, and cutting that one frees little.  doubles[i]: how many others like
 * holder i, of which it leads there by another item of a container, have
 * nothing or little but what it has.  Only of holders whose cut alone, by
 * `costs`, frees less than half of what is theirs.  0, or -1 when memory is
 * short. */
int ia_doubles_count(const ia_walk *, const ia_holders *,
                     const ia_cost *costs, uint32_t *doubles);

#endif /* IA_DOUBLES_H */
