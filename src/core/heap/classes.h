/* Classes of libraries: each object leads to its own, and that to most of what
 * a library has.  They wait until libraries' modules, where they are at home,
 * are gone through.
 */
#ifndef IA_CLASSES_H
#define IA_CLASSES_H

#include "walk.h"

/* Whether it is one, and so left for later; noted once. */
int ia_class_waits(ia_walk *, PyObject *type);
/* Goes on to those that wait and that the libraries' modules did not lead to:
 * made as the program runs, they are somebody else's. */
void ia_classes_follow(ia_walk *);

#endif /* IA_CLASSES_H */
