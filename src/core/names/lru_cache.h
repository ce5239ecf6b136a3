/* Names for what functools.lru_cache holds: by the arguments of the call. */
#ifndef IA_LRU_CACHE_H
#define IA_LRU_CACHE_H

#include "text.h"

/* `name` out of what functools.lru_cache was called with: "maxsize" or
 * "typed".  Borrowed, or NULL. */
PyObject *ia_lru_parameter(PyObject *, const char *name);
/* What the cache itself holds, what its dict does, and what a key does. */
ia_reading ia_name_in_lru_cache(PyObject *cache, PyObject *child,
                                ia_edge_text *);
ia_reading ia_name_lru_entry(PyObject *dict, PyObject *child, PyObject *cache,
                             ia_edge_text *);
ia_reading ia_name_lru_argument(PyObject *key, PyObject *child,
                                PyObject *cache, ia_edge_text *);

#endif /* IA_LRU_CACHE_H */
