/* What a reference of the walk points to. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "refs.h"

#include <stdio.h>
#include <string.h>

void
ia_type_name(PyTypeObject *type, char *buf, size_t size)
{
    const char *dot = strrchr(type->tp_name, '.');
    snprintf(buf, size, "%s", dot ? dot + 1 : type->tp_name);
}

void
ia_ref_type_name(uintptr_t ref, char *buf, size_t size)
{
    if (IA_TAG(ref) == IA_TAG_NODE) {
        ia_the_framework->describe_node((void *)IA_ADDRESS(ref), buf, size);
        return;
    }
    if (IA_TAG(ref) == IA_TAG_CROWD) {
        snprintf(buf, size, "objects");
        return;
    }
    if (IA_TAG(ref) == IA_TAG_MEMORY) {
        snprintf(buf, size, "Tensor");
        return;
    }
    if (IA_TAG(ref) == IA_TAG_FRAME) {
        snprintf(buf, size, "frame");
        return;
    }
    ia_type_name(Py_TYPE((PyObject *)ref), buf, size);
}
