/* Kinds of Python types, as NumPy and the framework know them. */

#include "compat.h"
#include "kinds.h"
#include "ndarray.h"

#include <string.h>

/* Direct-mapped: a heap has some hundred types that matter. */
#define KIND_CACHE 1024

static struct {
    PyTypeObject *type; /* borrowed; forgotten before every walk */
    int kind;
} cache[KIND_CACHE];

static PyTypeObject *module_type, *optimizer_type; /* borrowed */

void
ia_kinds_set_types(PyTypeObject *module, PyTypeObject *optimizer)
{
    module_type = module;
    optimizer_type = optimizer;
    ia_kinds_forget();
}

void
ia_kinds_forget(void)
{
    memset(cache, 0, sizeof cache);
}

static int
find_kind(PyTypeObject *type)
{
    if (ia_ndarray_is_class(type))
        return IA_KIND_NDARRAY;
    if (module_type != NULL && PyType_IsSubtype(type, module_type))
        return IA_KIND_MODULE;
    if (optimizer_type != NULL && PyType_IsSubtype(type, optimizer_type))
        return IA_KIND_OPTIMIZER;
    return ia_the_framework ? (int)ia_the_framework->kind_of_type(type)
                            : IA_KIND_PLAIN;
}

int
ia_kind_of(PyTypeObject *type)
{
    size_t i = ((uintptr_t)type >> 4) % KIND_CACHE;
    if (cache[i].type != type) {
        cache[i].kind = find_kind(type);
        cache[i].type = type;
    }
    return cache[i].kind;
}
