/* Where, among what one thing shows, another is: an index, a key, a variable, or
 * a count of what its tp_traverse shows before. */
#ifndef IA_PLACES_H
#define IA_PLACES_H

#include "../heap/walk.h"

typedef struct {
    uintptr_t wanted;
    Py_ssize_t place;    /* where to look first */
    uintptr_t key;       /* or by which key, in a dict */
    uintptr_t there;     /* what is at that place, or by that key */
    Py_ssize_t found;    /* place of `wanted`, or -1 */
    uintptr_t found_key; /* and its key, in a dict */
    Py_ssize_t count;
} ia_search;

/* ``still``: no other thread changes what only the framework knows. */
void ia_search_in(uintptr_t parent, ia_search *s, int still);

/* Whether its places mean something: it is a list, a tuple, a dict or a call. */
int ia_has_places(uintptr_t ref);

/* Numbers and texts are the same key where they are other objects; never 0. */
uintptr_t ia_key_mark(PyObject *key);

#endif /* IA_PLACES_H */
