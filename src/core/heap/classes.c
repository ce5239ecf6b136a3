/* Told apart by the modules that they name. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/read.h"
#include "classes.h"

#include <string.h>

/* What is known of a class, and of a module's name, by their addresses. */
enum { USERS, LIBRARYS };

static int
is_users_module(const ia_walk *w, PyObject *name)
{
    const char *text = ia_utf8(name);
    for (uint32_t i = 0; i < w->roots->count; i++) {
        const ia_root *root = &w->roots->items[i];
        if (root->user && root->kind == IA_ROOT_MODULE &&
            strcmp(root->name, text) == 0)
            return 1;
    }
    return 0;
}

/* A name that was cut is compared as it was cut: its class waits. */
static uint32_t
whose(ia_walk *w, PyTypeObject *type)
{
    PyObject *name = ia_dict_value(type->tp_dict, "__module__");
    if (name == NULL || !PyUnicode_CheckExact(name))
        return USERS;
    uint32_t known = ia_ptrmap_get(&w->classes, (uintptr_t)name);
    if (known != IA_PTRMAP_NONE)
        return known;
    known = is_users_module(w, name) ? USERS : LIBRARYS;
    ia_ptrmap_set(&w->classes, (uintptr_t)name, known);
    return known;
}

int
ia_class_waits(ia_walk *w, PyObject *type)
{
    uint32_t known = ia_ptrmap_get(&w->classes, (uintptr_t)type);
    if (known != IA_PTRMAP_NONE)
        return known == LIBRARYS;
    known = whose(w, (PyTypeObject *)type);
    if (known == LIBRARYS) {
        if (IA_ROOM(w->waiting, w->waiting_capacity,
                    (uint64_t)w->nwaiting + 1) < 0)
            return 0;
        w->waiting[w->nwaiting++] = (ia_put_off){
            (uintptr_t)type | IA_TAG_OBJECT, w->parent};
    }
    /* Where memory is short, it is noted twice. */
    ia_ptrmap_set(&w->classes, (uintptr_t)type, known);
    return known == LIBRARYS;
}

void
ia_classes_follow(ia_walk *w)
{
    for (uint32_t i = 0; i < w->nwaiting; i++)
        ia_walk_follow(w, w->waiting[i].ref, w->waiting[i].parent);
    w->nwaiting = 0;
    ia_walk_run(w);
}
