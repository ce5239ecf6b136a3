/* Keys that cannot come again. */

#include "keys.h"

#include "../base/kinds.h"
#include "../base/read.h"

#include <string.h>

/* `Tensor.__hash__` is id(). */
static int
is_hashed_as_tensors_are(PyTypeObject *type)
{
    PyObject *hash = ia_type_attribute(type, "__hash__");
    if (hash == NULL || !PyFunction_Check(hash))
        return 0;
    PyObject *module = ((PyFunctionObject *)hash)->func_module;
    return module != NULL && strcmp(ia_utf8(module), "torch._tensor") == 0;
}

static int
equals_itself_alone(PyTypeObject *type)
{
    return type->tp_hash == PyBaseObject_Type.tp_hash ||
           (ia_kind_of(type) == IA_KIND_TENSOR &&
            is_hashed_as_tensors_are(type));
}

/* Keys are mostly of one type. */
typedef struct {
    PyTypeObject *type; /* that was asked about last; compared only */
    int equals_itself_alone;
    PyObject *attributes; /* of a cached function itself: no entries */
    uint32_t count;
} entries;

static int
is_part_lone(entries *e, PyObject *part)
{
    if (Py_REFCNT(part) != 1)
        return 0;
    if (e->type != Py_TYPE(part)) {
        e->type = Py_TYPE(part);
        e->equals_itself_alone = equals_itself_alone(e->type);
    }
    return e->equals_itself_alone;
}

/* The arguments of a call are a tuple, and so are keys of several parts. */
static int
is_lone(entries *e, PyObject *key)
{
    if (!PyTuple_CheckExact(key) || Py_REFCNT(key) != 1)
        return is_part_lone(e, key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
        if (is_part_lone(e, PyTuple_GET_ITEM(key, i)))
            return 1;
    return 0;
}

static void
count_lone_keys(entries *e, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(dict, &pos, &key, &value))
        e->count += (uint32_t)is_lone(e, key);
}

static int
count_in_entries(PyObject *op, void *arg)
{
    entries *e = arg;
    if (op != NULL && PyDict_CheckExact(op) && op != e->attributes)
        count_lone_keys(e, op);
    return 0;
}

uint32_t
ia_lone_keys(PyObject *op)
{
    entries e = {0};
    if (PyDict_Check(op)) {
        count_lone_keys(&e, op);
    } else if (ia_base_named(Py_TYPE(op), "functools._lru_cache_wrapper")) {
        e.attributes = ia_get_instance_dict(op);
        Py_TYPE(op)->tp_traverse(op, count_in_entries, &e);
    }
    return e.count;
}
