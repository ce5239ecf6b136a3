/* Objects of one type, or of one function, as one root. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/letters.h"
#include "../base/read.h"
#include "crowds.h"

#include <stdlib.h>
#include <string.h>

int
ia_object_list_add(ia_object_list *list, PyObject *op)
{
    if (IA_ROOM(list->items, list->capacity, list->count + 1) < 0)
        return -1;
    list->items[list->count++] = op;
    return 0;
}

/* What one function was made for, be it bound, goes together: their type says
 * little.  NULL where it is none. */
static PyFunctionObject *
function_of(PyObject *op)
{
    if (PyMethod_Check(op))
        op = PyMethod_GET_FUNCTION(op);
    return op != NULL && PyFunction_Check(op) ? (PyFunctionObject *)op : NULL;
}

static int
compare(uintptr_t x, uintptr_t y)
{
    return (x > y) - (x < y);
}

static int
by_type(const void *a, const void *b)
{
    PyObject *x = *(PyObject *const *)a, *y = *(PyObject *const *)b;
    PyFunctionObject *f = function_of(x), *g = function_of(y);
    int order = compare((uintptr_t)Py_TYPE(x), (uintptr_t)Py_TYPE(y));
    return order ? order : compare(f ? (uintptr_t)f->func_code : 0,
                                   g ? (uintptr_t)g->func_code : 0);
}

static void
set_name(PyObject *op, char *buf, size_t size)
{
    char type[100];
    PyFunctionObject *f = function_of(op);
    ia_ref_type_name((uintptr_t)op, type, sizeof type);
    if (f == NULL) {
        snprintf(buf, size, "<%s>", type);
        return;
    }
    size_t length = (size_t)snprintf(buf, size, "<%s %s>", type,
                                     ia_utf8(f->func_qualname));
    if (length < size)
        return;
    static const char cut[] = "...>";
    buf[size - sizeof cut] = '\0';
    strcpy(buf + ia_whole_length(buf), cut);
}

static int
seed_crowd(ia_walk *w, ia_roots *roots, PyObject **members, uint32_t count,
           ia_root_kind kind)
{
    char name[IA_ROOT_NAME];
    ia_crowd *crowd = calloc(1, sizeof *crowd);
    PyObject **copy = malloc(count * sizeof *copy);
    set_name(members[0], name, sizeof name);
    if (crowd == NULL || copy == NULL ||
        ia_roots_add(roots, kind, (uintptr_t)crowd | IA_TAG_CROWD, 0,
                     name) == NULL) {
        free(crowd);
        free(copy);
        return -1;
    }
    memcpy(copy, members, count * sizeof *copy);
    *crowd = (ia_crowd){copy, count, roots->crowds};
    roots->crowds = crowd;
    ia_walk_seed(w, (uintptr_t)crowd | IA_TAG_CROWD, roots->count - 1);
    return 0;
}

int
ia_walk_seed_crowds(ia_walk *w, ia_roots *roots, ia_object_list *list,
                    ia_root_kind kind)
{
    uint32_t first = 0;
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, by_type);
    for (uint32_t i = 1; i <= list->count; i++) {
        if (i < list->count &&
            by_type(list->items + i, list->items + first) == 0)
            continue;
        if (seed_crowd(w, roots, list->items + first, i - first, kind) < 0)
            return -1;
        first = i;
    }
    ia_walk_run(w);
    return w->failed ? -1 : 0;
}

int
ia_walk_seed_alone(ia_walk *w, ia_roots *roots, PyObject *op,
                   ia_root_kind kind)
{
    ia_object_list one = {&op, 1, 1};
    if (ia_bitmap_test(w->seen, (uintptr_t)op))
        return 0;
    return ia_walk_seed_crowds(w, roots, &one, kind);
}
