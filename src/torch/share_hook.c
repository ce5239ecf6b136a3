/* Storages that move into shared memory: the two methods of
 * torch._C.StorageBase that give a storage other memory and free the block
 * that it had, which would pass for the storage's death.
 *
 * What is replaced is the function behind the method, which Python does not
 * see.  While it runs the ledger knows the storage by its own address, so the
 * block's death strikes nothing out.  GIL.
 */
#include "hooks.h"

typedef struct {
    const char *name;
    PyCFunction hook;
    PyCFunction original; /* set once: a call may outlive uninstall() */
    PyMethodDef *method;  /* of the interpreter's, lives for ever */
} shared_method;

static int reporting;

static PyObject *
share(PyObject *self, PyObject *args, PyCFunction original)
{
    ia_storage before, after;
    int moves = reporting && ia_storage_object_read(self, &before) &&
                ia_api->storage_renamed(before.data, before.impl);
    PyObject *result = original(self, args);

    if (moves) {
        if (ia_storage_object_read(self, &after) &&
            after.data == before.data) {
            ia_api->storage_renamed(before.impl, before.data);
        }
        else {
            ia_storage_object_follow(self);
        }
    }
    return result;
}

static PyObject *share_by_descriptor(PyObject *, PyObject *);
static PyObject *share_by_name(PyObject *, PyObject *);

static shared_method methods[] = {
    {.name = "_share_fd_cpu_", .hook = share_by_descriptor},
    {.name = "_share_filename_cpu_", .hook = share_by_name},
};
#define METHODS (sizeof methods / sizeof *methods)

static PyObject *
share_by_descriptor(PyObject *self, PyObject *args)
{
    return share(self, args, methods[0].original);
}

static PyObject *
share_by_name(PyObject *self, PyObject *args)
{
    return share(self, args, methods[1].original);
}

/* What is no method of C without arguments is left alone: such a storage's
 * move passes for its death. */
static PyMethodDef *
find_method(PyObject *storage_base, const char *name)
{
    PyObject *dict = ((PyTypeObject *)storage_base)->tp_dict;
    PyObject *found = dict ? PyDict_GetItemString(dict, name) : NULL;

    if (found == NULL || !Py_IS_TYPE(found, &PyMethodDescr_Type)) {
        return NULL;
    }
    PyMethodDef *method = ((PyMethodDescrObject *)found)->d_method;
    return method->ml_flags == METH_NOARGS ? method : NULL;
}

void
ia_share_install(ia_torch_state *state)
{
    for (size_t i = 0; i < METHODS; i++) {
        shared_method *m = &methods[i];
        if (m->method == NULL) {
            m->method = find_method(state->storage_base, m->name);
            m->original = m->method ? m->method->ml_meth : NULL;
        }
        if (m->method != NULL && m->method->ml_meth == m->original) {
            m->method->ml_meth = m->hook;
        }
    }
    reporting = 1;
}

void
ia_share_uninstall(void)
{
    reporting = 0;
    for (size_t i = 0; i < METHODS; i++) {
        shared_method *m = &methods[i];
        if (m->method != NULL && m->method->ml_meth == m->hook) {
            m->method->ml_meth = m->original;
        }
    }
}

void
ia_share_silence(void)
{
    reporting = 0;
}
