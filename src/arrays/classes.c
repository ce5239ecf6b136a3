/* Births and deaths of arrays: tp_alloc and tp_dealloc of their class. */

#include "hooks.h"

#include <assert.h>

static ia_array_class *const classes[] = {&ia_jax, &ia_tensorflow};
#define CLASSES (sizeof classes / sizeof classes[0])

ia_array_class *
ia_class_of(PyTypeObject *type)
{
    for (size_t i = 0; i < CLASSES; i++)
        if (classes[i]->type != NULL &&
            (type == classes[i]->type ||
             PyType_IsSubtype(type, classes[i]->type)))
            return classes[i];
    return NULL;
}

static PyObject *
array_alloc(PyTypeObject *type, Py_ssize_t items)
{
    PyObject *self = PyType_GenericAlloc(type, items);
    const ia_array_class *c = self != NULL ? ia_class_of(type) : NULL;
    if (c != NULL && c->reporting)
        ia_api->tensor_born(self);
    return self;
}

/* First the books: once given back, another object may get the address. */
static void
array_dealloc(PyObject *self)
{
    const ia_array_class *c = ia_class_of(Py_TYPE(self));
    assert(c != NULL); /* it is the slot of those and what is below them */
    ia_claims_bury(self);
    if (c->reporting)
        ia_api->tensor_died(self);
    c->dealloc(self);
}

/* The slot of classes that are written in Python: it looks for the first base
 * with another one, and would find ours again and again. */
static int
is_pythons(PyTypeObject *type)
{
    PyObject *like = PyErr_NewException("impactarbiter._arrays.Like", NULL,
                                        NULL);
    int same = like == NULL ||
               ((PyTypeObject *)like)->tp_dealloc == type->tp_dealloc;
    Py_XDECREF(like);
    PyErr_Clear();
    return same;
}

int
ia_class_refuses(PyTypeObject *type)
{
    int usual = type->tp_alloc == PyType_GenericAlloc ||
                type->tp_alloc == array_alloc;
    if (usual && !is_pythons(type))
        return 0;
    PyErr_Format(PyExc_RuntimeError,
                 "%s is allocated in a way that can't be watched",
                 type->tp_name);
    return 1;
}

void
ia_class_install(ia_array_class *c)
{
    PyTypeObject *type = c->type;
    /* Somebody who wrapped our tp_dealloc still calls it: taking theirs for
     * the original would make a circle. */
    if (c->dealloc == NULL && type->tp_dealloc != array_dealloc)
        c->dealloc = type->tp_dealloc;
    if (type->tp_dealloc == c->dealloc)
        type->tp_dealloc = array_dealloc;
    type->tp_alloc = array_alloc;
    c->reporting = 1;
}

void
ia_class_uninstall(ia_array_class *c)
{
    c->reporting = 0;
    if (c->type == NULL)
        return;
    if (c->type->tp_alloc == array_alloc)
        c->type->tp_alloc = PyType_GenericAlloc;
    if (c->type->tp_dealloc == array_dealloc)
        c->type->tp_dealloc = c->dealloc;
}

int
ia_class_installed(const ia_array_class *c)
{
    return c->reporting && c->type->tp_alloc == array_alloc &&
           c->type->tp_dealloc == array_dealloc;
}

void
ia_classes_silence(void)
{
    for (size_t i = 0; i < CLASSES; i++)
        classes[i]->reporting = 0;
}
