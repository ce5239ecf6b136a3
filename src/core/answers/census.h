/* What a holder's items are: how many of which sort. */
#ifndef IA_CENSUS_H
#define IA_CENSUS_H

#include "../base/compat.h"

/* {description: count} over the items of the holder at the end of a known
 * path; None where the path is broken.  A description is ("tensor", is_scalar,
 * has_graph), ("tuple" or "list", (description, ...)), ("dict", ((key,
 * description), ...)) or ("other", name of the type).  New reference. */
PyObject *ia_census_build(uint32_t path);

#endif /* IA_CENSUS_H */
