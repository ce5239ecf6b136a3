/* Which item of a container has been in it for longest. */

#include "../base/compat.h"
#include "items.h"

#include "places.h"

static int
take_first(PyObject *op, void *arg)
{
    *(uintptr_t *)arg = (uintptr_t)op;
    return 1;
}

uintptr_t
ia_first_item(PyObject *op)
{
    uintptr_t first = 0;
    if (!PyAnySet_Check(op) && Py_TYPE(op)->tp_traverse != NULL &&
        ia_is_gc(op))
        Py_TYPE(op)->tp_traverse(op, take_first, &first);
    return first;
}

/* An ordered dict shows its keys first, in their order. */
static ia_item
first_entry(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uintptr_t wanted = PyODict_CheckExact(dict) ? ia_first_item(dict) : 0;
    ia_item first = {0, 0};
    while (PyDict_Next(dict, &at, &key, &value)) {
        int is_wanted = wanted == 0 || (uintptr_t)key == wanted;
        if (is_wanted || first.item == 0)
            first = (ia_item){(uintptr_t)value, ia_key_mark(key)};
        if (is_wanted)
            break;
    }
    return first;
}

/* As it is shown; lists and tuples show their last one first. */
static ia_item
eldest_entry(PyObject *op)
{
    if (PyDict_Check(op))
        return first_entry(op);
    if (PyList_Check(op) || PyTuple_Check(op))
        return (ia_item){Py_SIZE(op) > 0
                              ? (uintptr_t)PySequence_Fast_GET_ITEM(op, 0)
                              : 0,
                          0};
    return (ia_item){ia_first_item(op), 0};
}

int
ia_has_item(PyObject *op, uintptr_t item)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(op); i++)
        if ((uintptr_t)PySequence_Fast_GET_ITEM(op, i) == item)
            return 1;
    return 0;
}

static int
dict_has(PyObject *dict, ia_item wanted)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if ((uintptr_t)value == wanted.item && ia_key_mark(key) == wanted.key)
            return 1;
    return 0;
}

uintptr_t
ia_newest_item(PyObject *op)
{
    return PyList_Check(op) && Py_SIZE(op) > 0
               ? (uintptr_t)PyList_GET_ITEM(op, Py_SIZE(op) - 1)
               : 0;
}

int
ia_same_item(ia_item a, ia_item b)
{
    return a.item == b.item && a.key == b.key;
}

ia_item
ia_eldest_since(PyObject *op, ia_item before)
{
    ia_item now = eldest_entry(op);
    if (before.item == 0 || ia_same_item(now, before))
        return now;
    return (PyList_Check(op) && ia_has_item(op, before.item)) ||
                   (PyDict_Check(op) && dict_has(op, before))
               ? before
               : now;
}

uintptr_t
ia_item_mark(ia_item e)
{
    return e.item == 0 ? 0 : (e.item ^ e.key) | 1;
}
