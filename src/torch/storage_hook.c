/* Births of storages that Python makes: torch.UntypedStorage(n) takes its
 * memory from torch's default allocator, past the one that is registered.
 * copy.deepcopy() and storage.clone() are made of it.
 *
 * tp_new is replaced on torch._C.StorageBase and on the classes that have
 * inherited it.  GIL.
 */
#include "hooks.h"

static newfunc original; /* set once: a class may reach us after uninstall */
static int reporting;

static PyObject *
storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = original(type, args, kwargs);
    if (self != NULL && reporting) {
        ia_storage_object_adopt(self);
    }
    return self;
}

static void
hook_class(PyTypeObject *type)
{
    if (type->tp_new == original) {
        type->tp_new = storage_new;
    }
}

static void
unhook_class(PyTypeObject *type)
{
    if (type->tp_new == storage_new) {
        type->tp_new = original;
    }
}

int
ia_storage_install(ia_torch_state *state)
{
    PyTypeObject *base = (PyTypeObject *)state->storage_base;
    if (original == NULL) {
        original = base->tp_new;
    }
    reporting = 1;
    return ia_class_tree_visit(state->storage_base, hook_class);
}

int
ia_storage_uninstall(ia_torch_state *state)
{
    reporting = 0;
    return ia_class_tree_visit(state->storage_base, unhook_class);
}

void
ia_storage_silence(void)
{
    reporting = 0;
}
