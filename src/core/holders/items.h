/* What the items of a container say of whether it is the one that it was: which
 * of them has been in it for longest.  Addresses, compared and never followed.
 */
#ifndef IA_ITEMS_H
#define IA_ITEMS_H

#include <stdint.h>

#include "../base/read.h"

/* Of a dict's item, its key as well: where another went, a new one may lie. */
typedef struct {
    uintptr_t item; /* 0: none, or not known */
    uintptr_t key;
} ia_item;

/* What is shown first; of an ordered dict, what was put in first. */
uintptr_t ia_first_item(PyObject *container);
/* Of a list or a tuple. */
int ia_has_item(PyObject *container, uintptr_t item);
/* The last one of a list, else 0. */
uintptr_t ia_newest_item(PyObject *container);
/* The eldest of `before` while it is there, be it at another place: the first
 * item of a heap is its least, and a cache moves to its end what it was asked
 * for.  Else, and of anything that is not a list or a dict, the first. */
ia_item ia_eldest_since(PyObject *container, ia_item before);
int ia_same_item(ia_item, ia_item);
/* For comparison, as one number; 0 for none. */
uintptr_t ia_item_mark(ia_item);

#endif /* IA_ITEMS_H */
