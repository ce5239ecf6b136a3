/* What a reference of the walk points to. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "refs.h"

#include <stdio.h>
#include <string.h>

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
    if (IA_TAG(ref) == IA_TAG_FRAME) {
        snprintf(buf, size, "frame");
        return;
    }
    const char *name = Py_TYPE((PyObject *)ref)->tp_name;
    const char *dot = strrchr(name, '.');
    snprintf(buf, size, "%s", dot ? dot + 1 : name);
}
