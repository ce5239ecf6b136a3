/* Where, among what one thing shows, another is: an index, a key, a variable,
 * an attribute, or a count of what its tp_traverse shows before. */
#ifndef IA_PLACES_H
#define IA_PLACES_H

#include "../heap/walk.h"

typedef struct {
    uintptr_t wanted;
    Py_ssize_t place;    /* where to look first */
    uintptr_t key;       /* or by which key or attribute */
    uintptr_t there;     /* what is at that place, or goes by that */
    Py_ssize_t found;    /* where `wanted` is: there, if it can be; or -1 */
    uintptr_t found_key; /* and by which key or attribute */
    Py_ssize_t count;
} ia_search;

/* ``still``: no other thread changes what only the framework knows. */
void ia_search_in(uintptr_t parent, ia_search *s, int still);

/* Whether its places mean something: they are indices, keys or names. */
int ia_has_places(uintptr_t ref);
/* Whether they are names: variables of a call, keys, attributes. */
int ia_has_names(uintptr_t ref);

/* Numbers and texts are the same key where they are other objects; never 0. */
uintptr_t ia_key_mark(PyObject *key);

#endif /* IA_PLACES_H */
