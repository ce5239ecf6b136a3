/* Keys that cannot come again. */
#ifndef IA_KEYS_H
#define IA_KEYS_H

#include "../base/compat.h"

/* How many of a dict's keys, or of functools.cache's, equal nothing but
 * themselves and are held by nothing else: nobody can ask for one of them
 * again.  0 for what is neither. */
uint32_t ia_lone_keys(PyObject *);

#endif /* IA_KEYS_H */
