/* A walk that notes each object of a type that pybind11 made. */

#include "../base/compat.h"
#include "../base/array.h"
#include "roots.h"
#include "wrappers.h"

#include <stdlib.h>
#include <string.h>

/* The class of such classes; each copy of pybind11 may make its own. */
static int
is_pybind11(PyTypeObject *meta)
{
    for (; meta != NULL && meta != &PyType_Type; meta = meta->tp_base)
        if (strcmp(meta->tp_name, "pybind11_type") == 0)
            return 1;
    return 0;
}

typedef struct {
    ia_wrappers *found;
    ia_bitmap *noted;
} notes;

static void
note(ia_walk *w, PyObject *op, void *arg)
{
    notes *n = arg;
    ia_wrappers *found = n->found;
    PyTypeObject *type = Py_TYPE(op);
    (void)w;
    if (!is_pybind11(Py_TYPE(type)) ||
        ia_bitmap_mark(n->noted, (uintptr_t)op))
        return;
    if (IA_ROOM(found->bodies, found->capacity,
                (uint64_t)found->count + 1) < 0) {
        found->failed = 1;
        return;
    }
    found->bodies[found->count++] =
        (ia_block){(uintptr_t)op, (size_t)type->tp_basicsize};
}

int
ia_wrappers_find(ia_wrappers *found)
{
    ia_walk w = {0};
    ia_storages storages = {0};
    ia_roots roots = {0};
    notes n = {found, ia_bitmap_new()};
    *found = (ia_wrappers){0};
    ia_kinds_forget();
    found->failed = n.noted == NULL || ia_roots_collect(&roots) < 0 ||
                    ia_walk_init(&w, &storages, &roots) < 0;
    if (!found->failed) {
        w.on_reference = note;
        w.on_reference_arg = &n;
        ia_walk_from_roots(&w);
        found->failed |= w.failed | n.noted->failed;
    }
    ia_walk_free(&w);
    ia_storages_free(&storages);
    ia_roots_free(&roots);
    ia_bitmap_free(n.noted);
    return found->failed ? -1 : 0;
}

void
ia_wrappers_free(ia_wrappers *w)
{
    free(w->bodies);
    *w = (ia_wrappers){0};
}
