/* Classes of libraries: each object leads to its own, and that to most of what
 * a library has.  They wait until libraries' modules, where they are at home,
 * are gone through.
 */
#ifndef IA_CLASSES_H
#define IA_CLASSES_H

#include "root.h"

typedef struct {
    ia_ptrmap known; /* what is known of a class, and of a module's name */
    struct {
        PyObject *type;  /* borrowed */
        uint32_t parent; /* entry that led to it first */
    } *waiting; /* owned */
    uint32_t count, capacity;
} ia_classes;

/* Whether it is one, and so left for later; noted once. */
int ia_class_waits(ia_classes *, const ia_roots *, PyObject *type,
                   uint32_t parent);
void ia_classes_free(ia_classes *);

#endif /* IA_CLASSES_H */
