/* Through a target's own attributes and items, to storages that were reached
 * before any target was gone through. */

#include "../base/compat.h"
#include "../base/array.h"
#include "../base/device_name.h"
#include "../base/errors.h"
#include "../base/kinds.h"
#include "../base/ndarray.h"
#include "../names/path.h"
#include "elsewhere.h"

#include <stdlib.h>

/* Objects that one target has; some tenths of a second. */
#define MOST_OBJECTS 1000000

typedef struct {
    ia_question *q;
    PyObject **items; /* owned array of borrowed references */
    uint32_t count, capacity;
    ia_ptrmap seen;    /* objects, and keys of storages */
    uint64_t bytes;
    uint32_t storages;
    const ia_reached *largest;
    int failed;
} search;

/* What these lead to is not what somebody has. */
static int
is_code(PyObject *op)
{
    return PyType_Check(op) || PyModule_Check(op) || PyFunction_Check(op) ||
           PyCFunction_Check(op) || PyFrame_Check(op) || PyCode_Check(op) ||
           PyGen_Check(op);
}

static int
add(PyObject *op, void *arg)
{
    search *s = arg;
    if (op == NULL || s->failed || s->count == MOST_OBJECTS || is_code(op) ||
        (!ia_can_traverse(op) &&
         ia_kind_of(Py_TYPE(op)) == IA_KIND_PLAIN))
        return 0;
    int news = ia_ptrmap_add(&s->seen, (uintptr_t)op, 0);
    if (news < 0 || IA_ROOM(s->items, s->capacity, s->count + 1) < 0)
        s->failed = 1;
    else if (news)
        s->items[s->count++] = op;
    return 0;
}

/* Was it reached without a target?  What a target holds itself has the
 * target's own entry, which is older. */
static int
is_held_elsewhere(const ia_question *q, const ia_reached *r)
{
    return r->entry != IA_NO_ENTRY && r->entry < q->before_targets &&
           ia_ptrmap_get(&q->index, q->w.queue[r->entry].ref) ==
               IA_PTRMAP_NONE;
}

static void
count_storage(search *s, const ia_storage *storage)
{
    const ia_reached *r = ia_storages_get(&s->q->storages, storage);
    if (r == NULL || !is_held_elsewhere(s->q, r) || r->bytes == 0)
        return;
    int news = ia_ptrmap_add(&s->seen, r->key, 0);
    if (news < 0)
        s->failed = 1;
    if (news <= 0)
        return;
    s->bytes += r->bytes;
    s->storages++;
    if (s->largest == NULL || r->bytes > s->largest->bytes)
        s->largest = r;
}

static void
look_at(search *s, PyObject *op)
{
    ia_storage storage;
    ia_tensor_info info;
    int kind = ia_kind_of(Py_TYPE(op));
    if (kind == IA_KIND_TENSOR) {
        if (ia_the_framework->storage_of(op, &storage))
            count_storage(s, &storage);
    }
    else if (kind == IA_KIND_NDARRAY) {
        ia_ndarray_describe(op, &info);
        info.storage.device = IA_DEVICE_NUMPY;
        count_storage(s, &info.storage);
    }
    else if (ia_can_traverse(op))
        ia_walk_traverse(&s->q->w, op, add, s);
}

PyObject *
ia_elsewhere_build(ia_question *q, PyObject *target)
{
    search s = {.q = q};
    PyObject *result = NULL;
    add(target, &s);
    while (s.count > 0 && !s.failed)
        look_at(&s, s.items[--s.count]);
    if (s.failed)
        PyErr_NoMemory();
    else if (s.largest == NULL)
        result = Py_NewRef(Py_None);
    else {
        PyObject *path =
            ia_path_build(&q->w, s.largest->entry, IA_NO_ENTRY, NULL);
        if (path != NULL)
            result = Py_BuildValue("(KIN)", (unsigned long long)s.bytes,
                                   s.storages, path);
    }
    free(s.items);
    ia_ptrmap_free(&s.seen);
    return result;
}
