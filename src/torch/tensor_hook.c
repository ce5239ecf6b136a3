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
static ia_torch_state *state_to_rescan; /* borrowed while reporting */

/* Classes created since the last look inherit no slot of ours.  Not while an
 * exception is on its way, and never the user's error. */
static void
look_for_classes(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (ia_tensor_rescan(state_to_rescan) < 0 ||
        ia_module_rescan(state_to_rescan) < 0) {
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
}

static PyObject *
tensor_alloc(PyTypeObject *type, Py_ssize_t items)
{
    /* Before there is an object: the look may start the collector, which
     * must not meet a tensor that is allocated but not yet constructed. */
    if (reporting && ia_module_rescan_is_due()) {
        look_for_classes();
    }
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
    state_to_rescan = state;
    reporting = 1;
    return ia_tensor_rescan(state);
}

int
ia_tensor_rescan(ia_torch_state *state)
{
    if (!reporting) {
        return 0;
    }
    return ia_class_tree_visit(state->tensor_base, hook_class);
}

int
ia_tensor_uninstall(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->tensor_base;

    reporting = 0;
    if (base->tp_dealloc == tensor_dealloc) {
        base->tp_dealloc = original_dealloc;
    }
    return ia_class_tree_visit(state->tensor_base, unhook_class);
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
