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

/* The arguments of a call are a tuple, and so are keys of several parts. */
static int
is_lone(PyObject *key)
{
    if (Py_REFCNT(key) != 1 || !PyTuple_CheckExact(key))
        return Py_REFCNT(key) == 1 && equals_itself_alone(Py_TYPE(key));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
        PyObject *part = PyTuple_GET_ITEM(key, i);
        if (Py_REFCNT(part) == 1 && equals_itself_alone(Py_TYPE(part)))
            return 1;
    }
    return 0;
}

static uint32_t
lone_keys_of_dict(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    uint32_t count = 0;
    while (PyDict_Next(dict, &pos, &key, &value))
        count += (uint32_t)is_lone(key);
    return count;
}

typedef struct {
    PyObject *attributes; /* of the function itself: no entries */
    uint32_t count;
} entries;

static int
count_in_entries(PyObject *op, void *arg)
{
    entries *e = arg;
    if (op != NULL && PyDict_CheckExact(op) && op != e->attributes)
        e->count += lone_keys_of_dict(op);
    return 0;
}

uint32_t
ia_lone_keys(PyObject *op)
{
    if (PyDict_Check(op))
        return lone_keys_of_dict(op);
    if (ia_base_named(Py_TYPE(op), "functools._lru_cache_wrapper") == NULL)
        return 0;
    entries e = {.attributes = ia_get_instance_dict(op)};
    Py_TYPE(op)->tp_traverse(op, count_in_entries, &e);
    return e.count;
}
