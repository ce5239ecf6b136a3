/* Plain Python values for what a diagnosis found. */

#include "../base/compat.h"
#include "describe.h"
#include "../names/containers.h"
#include "../heap/purposes.h"

#include <stdio.h>
#include <string.h>

PyObject *
ia_cost_build(const ia_cost *cost)
{
    PyObject *biggest = PyList_New(0);
    for (int i = 0; biggest && i < cost->nbiggest; i++) {
        const ia_node_cost *n = &cost->biggest[i];
        PyObject *item =
            Py_BuildValue("(sKK)", n->name, (unsigned long long)n->count,
                          (unsigned long long)n->bytes);
        if (item == NULL || PyList_Append(biggest, item) < 0)
            Py_CLEAR(biggest);
        Py_XDECREF(item);
    }
    if (biggest == NULL)
        return NULL;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:N}", "bytes",
                         (unsigned long long)cost->bytes, "storages",
                         (unsigned long long)cost->storages, "nodes",
                         (unsigned long long)cost->nodes, "node_bytes",
                         (unsigned long long)cost->node_bytes, "saved",
                         (unsigned long long)cost->saved, "saved_bytes",
                         (unsigned long long)cost->saved_bytes, "biggest",
                         biggest);
}

/* c10::DeviceType by number; the first twelve never change. */
void
ia_device_name(uint16_t device, char *out, size_t size)
{
    static const char *const names[] = {
        "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",
        "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps", "meta",
        "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"};
    unsigned type = device >> 8, index = device & 0xFF;
    if (type >= sizeof names / sizeof *names)
        snprintf(out, size, "device%u:%u", type, index);
    else if (type == 0 || type == 14)
        snprintf(out, size, "%s", names[type]);
    else
        snprintf(out, size, "%s:%u", names[type], index);
}

PyObject *
ia_device_build(uint16_t device)
{
    char name[32];
    ia_device_name(device, name, sizeof name);
    return PyUnicode_FromString(name);
}

static PyObject *
build_shape(const ia_tensor_info *info)
{
    if (info->dims < 0)
        return Py_NewRef(Py_None);
    int n = info->dims < IA_MAX_DIMS ? info->dims : IA_MAX_DIMS;
    PyObject *shape = PyTuple_New(n);
    for (int i = 0; shape && i < n; i++) {
        PyObject *size = PyLong_FromLongLong(info->shape[i]);
        if (size == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, i, size);
    }
    return shape;
}

PyObject *
ia_tensor_build(uintptr_t ref, uint16_t device_code, uint64_t bytes)
{
    ia_tensor_info info = {.dims = -1};
    int known = IA_TAG(ref) == IA_TAG_OBJECT &&
                ia_kind_of(Py_TYPE((PyObject *)ref)) == IA_KIND_TENSOR &&
                ia_the_framework->describe_tensor((PyObject *)ref, &info);
    PyObject *shape = known ? build_shape(&info) : Py_NewRef(Py_None);
    PyObject *device = shape ? ia_device_build(device_code) : NULL;
    if (device == NULL) {
        Py_XDECREF(shape);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:z,s:N,s:K,s:i}", "shape", shape, "dtype",
                         known ? info.dtype : NULL, "device", device, "bytes",
                         (unsigned long long)bytes, "requires_grad",
                         known ? info.requires_grad : 0);
}

const char *
ia_purpose_name(int purpose)
{
    static const char *const names[IA_PURPOSES] = {
        [IA_FOR_UNKNOWN] = "other",
        [IA_FOR_GRAPH] = "graph",
        [IA_FOR_BUFFER] = "buffers",
        [IA_FOR_OPTIMIZER] = "optimizer_state",
        [IA_FOR_GRADIENT] = "gradients",
        [IA_FOR_PARAMETER] = "parameters",
    };
    return names[purpose];
}

PyObject *
ia_purposes_build(const ia_storages *s)
{
    uint64_t bytes[IA_PURPOSES] = {0}, claimed = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const ia_reached *r = &s->items[i];
        if (r->in_ledger && !r->allowed)
            *(r->claimed ? &claimed : &bytes[r->purpose]) += r->bytes;
    }
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < IA_PURPOSES; i++) {
        PyObject *n = PyLong_FromUnsignedLongLong(bytes[i]);
        if (n == NULL || PyDict_SetItemString(dict, ia_purpose_name(i), n) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(n);
    }
    PyObject *n = dict ? PyLong_FromUnsignedLongLong(claimed) : NULL;
    if (n != NULL && PyDict_SetItemString(dict, "claimed", n) < 0)
        Py_CLEAR(dict);
    Py_XDECREF(n);
    return dict;
}

/* -- bounds -------------------------------------------------------------- */

/* deque.maxlen by the C getter of deque itself, whatever a subclass says. */
static PyObject *
deque_bound(PyTypeObject *deque, PyObject *op)
{
    for (PyGetSetDef *g = deque->tp_getset; g && g->name; g++)
        if (strcmp(g->name, "maxlen") == 0)
            return g->get(op, g->closure);
    return Py_NewRef(Py_None);
}

static PyObject *
lru_bound(PyObject *op)
{
    PyObject *size = ia_lru_parameter(op, "maxsize");
    return Py_NewRef(size && PyLong_CheckExact(size) ? size : Py_None);
}

/* References between an optimizer and a list in its state: the instance's
 * dict, `state`, the parameter's dict. */
#define MAX_STATE_HOPS 4

/* Quasi-Newton methods keep as many past steps as the option says. */
static PyObject *
history_bound(const ia_walk *w, uint32_t entry)
{
    for (int hop = 0; hop < MAX_STATE_HOPS && entry != IA_NO_ENTRY; hop++) {
        entry = w->queue[entry].parent;
        if (entry == IA_NO_ENTRY || IA_TAG(w->queue[entry].ref) != IA_TAG_OBJECT)
            break;
        PyObject *op = (PyObject *)w->queue[entry].ref, *group;
        if (ia_kind_of(Py_TYPE(op)) != IA_KIND_OPTIMIZER)
            continue;
        PyObject *groups = ia_instance_attribute(op, "param_groups");
        if (groups == NULL || !PyList_Check(groups) || !PyList_GET_SIZE(groups))
            break;
        group = PyList_GET_ITEM(groups, 0);
        PyObject *size = PyDict_Check(group)
                             ? ia_dict_value(group, "history_size") : NULL;
        return Py_NewRef(size && PyLong_CheckExact(size) ? size : Py_None);
    }
    return Py_NewRef(Py_None);
}

PyObject *
ia_bound_of(const ia_walk *w, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return Py_NewRef(Py_None);
    PyObject *op = (PyObject *)ref;
    PyTypeObject *deque = ia_base_named(Py_TYPE(op), "collections.deque");
    if (deque != NULL)
        return deque_bound(deque, op);
    if (ia_base_named(Py_TYPE(op), "functools._lru_cache_wrapper"))
        return lru_bound(op);
    if (PyList_CheckExact(op))
        return history_bound(w, entry);
    return Py_NewRef(Py_None);
}
