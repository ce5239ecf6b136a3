/* One diagnosis: walk, holders, names and costs in a single call. */
#ifndef IA_DIAGNOSIS_H
#define IA_DIAGNOSIS_H

#include "../heap/walk.h"

/* Holders that are named and measured in one diagnosis; a program that leaks
 * at more places hears of the largest first. */
#define IA_MAX_HOLDERS 24

/* Sites that are asked about, by what of them is wanted (groups.h); sequences
 * of int, borrowed, NULL for none. */
typedef struct {
    PyObject *sites, *any_age, *anew, *alone;
} ia_asked_sites;

/* _core.diagnose(sites, any_age, remember, anew, weigh, ways, near, alone) ->
 * dict; see _core.pyi for its shape.  Near: where the user's own roots lead to
 * all that is wanted, libraries' modules are not walked. */
PyObject *ia_diagnose(const ia_asked_sites *, int remember, int weigh,
                      int ways, int near);

#endif /* IA_DIAGNOSIS_H */
