/* Told apart by the modules that they name. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/read.h"
#include "classes.h"

#include <stdlib.h>
#include <string.h>

enum { USERS, LIBRARYS };

void
ia_classes_free(ia_classes *c)
{
    ia_ptrmap_free(&c->known);
    free(c->waiting);
    *c = (ia_classes){0};
}

/* A name that was cut is compared as it was cut: its classes wait. */
static int
is_users_module(const ia_roots *roots, PyObject *name)
{
    char buf[IA_ROOT_NAME];
    const char *text = ia_text(name, buf, sizeof buf);
    for (uint32_t i = 0; i < roots->count; i++) {
        const ia_root *root = &roots->items[i];
        if (root->user && root->kind == IA_ROOT_MODULE &&
            strcmp(root->name, text) == 0)
            return 1;
    }
    return 0;
}

static uint32_t
whose(ia_classes *c, const ia_roots *roots, PyTypeObject *type)
{
    PyObject *name = ia_dict_value(type->tp_dict, "__module__");
    if (name == NULL || !PyUnicode_CheckExact(name))
        return USERS;
    uint32_t known = ia_ptrmap_get(&c->known, (uintptr_t)name);
    if (known != IA_PTRMAP_NONE)
        return known;
    known = is_users_module(roots, name) ? USERS : LIBRARYS;
    ia_ptrmap_set(&c->known, (uintptr_t)name, known);
    return known;
}

int
ia_class_waits(ia_classes *c, const ia_roots *roots, PyObject *type,
               uint32_t parent)
{
    uint32_t known = ia_ptrmap_get(&c->known, (uintptr_t)type);
    if (known != IA_PTRMAP_NONE)
        return known == LIBRARYS;
    known = whose(c, roots, (PyTypeObject *)type);
    if (known == LIBRARYS) {
        if (IA_ROOM(c->waiting, c->capacity, (uint64_t)c->count + 1) < 0)
            return 0;
        c->waiting[c->count].type = type;
        c->waiting[c->count++].parent = parent;
    }
    /* Where memory is short, it is noted twice. */
    ia_ptrmap_set(&c->known, (uintptr_t)type, known);
    return known == LIBRARYS;
}
