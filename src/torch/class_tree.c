/* All subclasses of a class, those created at run time included.
 *
 * Slots that are replaced on a class are inherited by what was created
 * before, not by what comes later: the hooks look again now and then.
 */
#include "hooks.h"

/* Appends to `found` the subclasses of `cls` that `seen` has not. */
static int
add_subclasses(PyObject *cls, PyObject *seen, PyObject *found)
{
    /* type.__subclasses__ itself: a metaclass may override it. */
    PyObject *subclasses = PyObject_CallMethod((PyObject *)&PyType_Type,
                                               "__subclasses__", "O", cls);
    int result = -1;

    if (subclasses == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(subclasses); i++) {
        PyObject *sub = PyList_GET_ITEM(subclasses, i);
        PyObject *key = PyLong_FromVoidPtr(sub);
        int known = key == NULL ? -1 : PySet_Contains(seen, key);
        if (known == 0 &&
            (PySet_Add(seen, key) < 0 || PyList_Append(found, sub) < 0)) {
            known = -1;
        }
        Py_XDECREF(key);
        if (known < 0) {
            goto done;
        }
    }
    result = 0;
done:
    Py_DECREF(subclasses);
    return result;
}

/* `seen` goes by address because a metaclass may define __eq__. */
int
ia_class_tree_visit(PyObject *base, void (*visit)(PyTypeObject *))
{
    PyObject *seen = PySet_New(NULL);
    PyObject *classes = PyList_New(0);
    int result = -1;

    if (seen == NULL || classes == NULL || PyList_Append(classes, base) < 0) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(classes); i++) {
        PyObject *cls = PyList_GET_ITEM(classes, i);
        visit((PyTypeObject *)cls);
        if (add_subclasses(cls, seen, classes) < 0) {
            goto done;
        }
    }
    result = 0;
done:
    Py_XDECREF(seen);
    Py_XDECREF(classes);
    return result;
}
