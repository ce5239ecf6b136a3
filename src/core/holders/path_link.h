/* One link of a path: what one object leads to, and where that stands among
 * what it shows.
 *
 * Addresses do not say which of several alike an object is, where each step
 * makes all of them anew: a weak reference does, and where there is none, its
 * index, key or variable.
 */
#ifndef IA_PATH_LINK_H
#define IA_PATH_LINK_H

#include "places.h"

typedef struct {
    uintptr_t ref;
    PyTypeObject *type; /* of an object; compared, never followed */
    PyObject *life;     /* owned: a weak reference to it, or NULL */
    Py_ssize_t place;   /* among what the link before it shows */
    uintptr_t key;      /* mark of its name there, or 0 */
} ia_link;

/* Where another of its type stands at the place of what a link led to, and its
 * address is met at another place: has it moved, or was it let go and something
 * been made where it had lain?  Addresses do not say. */
typedef enum {
    IA_BY_PLACE,
    IA_BY_ADDRESS,
} ia_bearing;

/* Of an object that has been met a moment ago. */
ia_link ia_link_to(uintptr_t ref);
/* Notes where `parent` shows it; 0 where it does not. */
int ia_link_place(ia_link *, uintptr_t parent, int still);
/* 1: it holds; 0: what it led to is not there, or another is. */
int ia_link_follow(ia_link *, uintptr_t parent, ia_bearing, int still);
/* What stands where it led to, be that another; or NULL. */
PyObject *ia_link_at(const ia_link *, uintptr_t parent, int still);
/* What leads to another object of its type from now on: one that stands there
 * instead, as a state that each step makes anew, with more in it; or in front
 * of the one before, which it leads to, as a function that wraps it. */
enum { IA_INSTEAD = 1, IA_IN_FRONT };
/* One of the two, or 0 where nothing of its type stands there. */
int ia_link_move_on(ia_link *, uintptr_t parent, int still);
/* It leads to `op` from now on. */
void ia_link_set(ia_link *, PyObject *op);
/* Is what it led to still alive, as far as a weak reference says? */
int ia_link_is_alive(const ia_link *);
/* Is that an object of the type that it led to? */
int ia_link_is_of_type(const ia_link *, PyObject *);

#endif /* IA_PATH_LINK_H */
