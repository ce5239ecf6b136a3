/* What storages are for: parameters, buffers, state of optimizers. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/read.h"
#include "../steps/optimizers.h"
#include "purposes.h"

/* Wrappers in wrappers: a DTensor's shard may be a quantized tensor, which
 * has its values and their scale. */
enum { MOST_WRAPPERS = 3 };

typedef struct {
    ia_storages *storages;
    ia_purpose purpose;
    int accounted_for; /* an optimizer in use has it: no growth to explain */
    int depth; /* in wrappers */
} noting;

static void note_inside(const noting *, PyObject *op);

static void
note_storage(const noting *n, const ia_storage *storage)
{
    ia_reached *item = ia_storages_get(n->storages, storage);
    if (item == NULL)
        return;
    item->accounted_for |= (uint8_t)n->accounted_for;
    if (n->purpose > item->purpose)
        item->purpose = (uint16_t)n->purpose;
}

/* A wrapper has no memory of its own: that of what it wraps is meant. */
static void
visit_tensor(const noting *n, PyObject *op)
{
    ia_storage storage;
    if (ia_kind_of(Py_TYPE(op)) != IA_KIND_TENSOR ||
        !ia_the_framework->storage_of(op, &storage))
        return;
    note_storage(n, &storage);
    if (storage.data == 0 && storage.bytes == 0 && n->depth < MOST_WRAPPERS)
        note_inside(n, op);
}

static int
visit_held(PyObject *op, void *arg)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (!PyDict_Check(op)) {
        visit_tensor(arg, op);
        return 0;
    }
    while (PyDict_Next(op, &pos, &key, &value))
        visit_tensor(arg, value);
    return 0;
}

/* Its slots and its __dict__, as tp_traverse shows them. */
static void
note_inside(const noting *n, PyObject *op)
{
    noting inner = *n;
    inner.depth++;
    if (Py_TYPE(op)->tp_traverse != NULL && ia_can_traverse(op))
        Py_TYPE(op)->tp_traverse(op, visit_held, &inner);
}

static void
note_tensor(ia_storages *storages, PyObject *op, ia_purpose purpose,
            int accounted_for)
{
    noting plain = {storages, purpose, accounted_for, 0};
    visit_tensor(&plain, op);
}

static void
note_values(ia_storages *storages, PyObject *dict, ia_purpose purpose)
{
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (dict == NULL || !PyDict_Check(dict))
        return;
    while (PyDict_Next(dict, &pos, &key, &value))
        note_tensor(storages, value, purpose, purpose == IA_FOR_OPTIMIZER);
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
gradient_without_object(ia_sink *sink, const ia_storage *storage,
                        ia_edge_kind kind, const char *name, Py_ssize_t index)
{
    noting gradient = {((gradient_sink *)sink)->storages, IA_FOR_GRADIENT, 1,
                       0};
    (void)name, (void)index;
    if (kind == IA_EDGE_GRAD)
        note_storage(&gradient, storage);
    return 0;
}

static int
gradient_object(ia_sink *sink, PyObject *op, ia_edge_kind kind,
                const char *name, Py_ssize_t index)
{
    (void)name, (void)index;
    if (kind == IA_EDGE_GRAD)
        note_tensor(((gradient_sink *)sink)->storages, op, IA_FOR_GRADIENT,
                    1);
    return 0;
}

static void
account_for_gradient(ia_storages *storages, PyObject *param)
{
    gradient_sink sink = {{gradient_object, ia_pass_node,
                           gradient_without_object, NULL},
                          storages};
    if (ia_kind_of(Py_TYPE(param)) == IA_KIND_TENSOR)
        ia_the_framework->expand_object(param, IA_KIND_TENSOR, &sink.sink);
}

/* References that an optimizer has to a parameter: in a group, and as the key
 * of its state. */
enum { OF_AN_OPTIMIZER = 2 };

/* The state of parameters that the optimizer no longer has is a leftover; so
 * is that of parameters that nothing else has. */
static void
note_optimizer(ia_storages *storages, PyObject *op)
{
    ia_ptrmap params = {0};
    PyObject *state = ia_instance_attribute(op, "state"), *key, *value;
    Py_ssize_t pos = 0;
    add_parameters(&params, ia_instance_attribute(op, "param_groups"));
    while (state != NULL && PyDict_Check(state) &&
           PyDict_Next(state, &pos, &key, &value))
        if (ia_ptrmap_get(&params, (uintptr_t)key) != IA_PTRMAP_NONE &&
            Py_REFCNT(key) > OF_AN_OPTIMIZER) {
            note_values(storages, value, IA_FOR_OPTIMIZER);
            account_for_gradient(storages, key);
        }
    ia_ptrmap_free(&params);
}

void
ia_purpose_note_gradient(ia_storages *storages, PyObject *op)
{
    note_tensor(storages, op, IA_FOR_GRADIENT, 0);
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
