/* Births and deaths of Python tensor objects: tp_alloc of every tensor class
 * and tp_dealloc of torch._C.TensorBase, which all of them end in.
 *
 * tp_dealloc is replaced on TensorBase alone: a subclass reaches it through
 * subtype_dealloc, and replacing it there as well would recurse for ever.
 * All of this runs with the GIL held.
 */
#include "hooks.h"

/* Set once, and kept: a class may still reach us through somebody else's
 * wrapper after uninstall. */
static destructor original_dealloc;
static int reporting;

static PyObject *
tensor_alloc(PyTypeObject *type, Py_ssize_t items)
{
    PyObject *self = PyType_GenericAlloc(type, items);
    if (self != NULL && reporting) {
        ia_api->tensor_born(self);
    }
    return self;
}

static void
tensor_dealloc(PyObject *self)
{
    if (reporting) {
        ia_api->tensor_died(self);
    }
    original_dealloc(self);
}

/* A class that allocates in its own way keeps it: we would not know how. */
static void
hook_class(PyTypeObject *type)
{
    if (type->tp_alloc == PyType_GenericAlloc) {
        type->tp_alloc = tensor_alloc;
    }
}

static void
unhook_class(PyTypeObject *type)
{
    if (type->tp_alloc == tensor_alloc) {
        type->tp_alloc = PyType_GenericAlloc;
    }
}

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

/* Visits TensorBase and all its subclasses.  They are held only meanwhile;
 * `seen` goes by address because a metaclass may define __eq__. */
static int
for_each_class(PyObject *base, void (*visit)(PyTypeObject *))
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

int
ia_tensor_install(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->tensor_base;

    /* Somebody who wrapped our tp_dealloc still calls it: taking theirs for
     * the original would make a circle. */
    if (base->tp_dealloc != tensor_dealloc && original_dealloc == NULL) {
        original_dealloc = base->tp_dealloc;
    }
    if (base->tp_dealloc == original_dealloc) {
        base->tp_dealloc = tensor_dealloc;
    }
    reporting = 1;
    return ia_tensor_rescan(state);
}

int
ia_tensor_rescan(ia_torch_state *state)
{
    if (!reporting) {
        return 0;
    }
    return for_each_class(state->tensor_base, hook_class);
}

int
ia_tensor_uninstall(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->tensor_base;

    reporting = 0;
    if (base->tp_dealloc == tensor_dealloc) {
        base->tp_dealloc = original_dealloc;
    }
    return for_each_class(state->tensor_base, unhook_class);
}

void
ia_tensor_silence(void)
{
    reporting = 0;
}

int
ia_tensor_installed(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->tensor_base;
    return reporting && base->tp_alloc == tensor_alloc &&
           base->tp_dealloc == tensor_dealloc;
}
