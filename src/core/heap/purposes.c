/* What storages are for: parameters, buffers, state of optimizers. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/read.h"
#include "../steps/optimizers.h"
#include "purposes.h"

static void
note_tensor(ia_storages *storages, PyObject *op, ia_purpose purpose)
{
    ia_storage storage;
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &storage))
        return;
    ia_reached *item = ia_storages_get(storages, &storage);
    if (item == NULL)
        return;
    item->accounted_for |= purpose == IA_FOR_OPTIMIZER;
    if (purpose > item->purpose)
        item->purpose = (uint16_t)purpose;
}

static void
note_values(ia_storages *storages, PyObject *dict, ia_purpose purpose)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (dict == NULL || !PyDict_Check(dict))
        return;
    while (PyDict_Next(dict, &pos, &key, &value))
        note_tensor(storages, value, purpose);
}

/* Adds the parameters that an optimizer still has to a set. */
static void
add_parameters(ia_ptrmap *set, PyObject *groups)
{
    if (groups == NULL || !PyList_Check(groups))
        return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); i++) {
        PyObject *group = PyList_GET_ITEM(groups, i);
        PyObject *params = PyDict_Check(group)
                               ? ia_dict_value(group, "params") : NULL;
        if (params == NULL || !PyList_Check(params))
            continue;
        for (Py_ssize_t j = 0; j < PyList_GET_SIZE(params); j++)
            ia_ptrmap_set(set, (uintptr_t)PyList_GET_ITEM(params, j), 1);
    }
}

/* Takes the gradient among what a parameter holds. */
typedef struct {
    ia_sink sink; /* first */
    ia_storages *storages;
} gradient_sink;

static int
account_for_storage(ia_sink *sink, const ia_storage *storage, ia_edge_kind kind,
                const char *name, Py_ssize_t index)
{
    (void)name, (void)index;
    if (kind != IA_EDGE_GRAD)
        return 0;
    ia_reached *item =
        ia_storages_get(((gradient_sink *)sink)->storages, storage);
    if (item != NULL)
        item->accounted_for = 1;
    return 0;
}

static int
account_for_object(ia_sink *sink, PyObject *op, ia_edge_kind kind,
               const char *name, Py_ssize_t index)
{
    ia_storage storage;
    if (kind != IA_EDGE_GRAD ||
        ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &storage))
        return 0;
    return account_for_storage(sink, &storage, kind, name, index);
}

static int
pass_node(ia_sink *sink, void *node, ia_edge_kind kind, const char *name,
          Py_ssize_t index)
{
    (void)sink, (void)node, (void)kind, (void)name, (void)index;
    return 0;
}

static void
account_for_gradient(ia_storages *storages, PyObject *param)
{
    gradient_sink sink = {{account_for_object, pass_node, account_for_storage},
                          storages};
    if (ia_kind_of(Py_TYPE(param)) == IA_KIND_TENSOR)
        ia_the_framework->expand_object(param, IA_KIND_TENSOR, &sink.sink);
}

/* The state of parameters that the optimizer no longer has is a leftover. */
static void
note_optimizer(ia_storages *storages, PyObject *op)
{
    ia_ptrmap params = {0};
    PyObject *state = ia_instance_attribute(op, "state"), *key, *value;
    Py_ssize_t pos = 0;
    add_parameters(&params, ia_instance_attribute(op, "param_groups"));
    while (state != NULL && PyDict_Check(state) &&
           PyDict_Next(state, &pos, &key, &value))
        if (ia_ptrmap_get(&params, (uintptr_t)key) != IA_PTRMAP_NONE) {
            note_values(storages, value, IA_FOR_OPTIMIZER);
            account_for_gradient(storages, key);
        }
    ia_ptrmap_free(&params);
}

void
ia_purpose_note(ia_storages *storages, PyObject *op, int kind)
{
    if (kind == IA_KIND_MODULE) {
        note_values(storages, ia_instance_attribute(op, "_parameters"),
                    IA_FOR_PARAMETER);
        note_values(storages, ia_instance_attribute(op, "_buffers"),
                    IA_FOR_BUFFER);
        return;
    }
    /* State of a throw-away optimizer explains nothing. */
    if (ia_optimizer_steps(op))
        note_optimizer(storages, op);
}
