/* Plain Python values for what a diagnosis found. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/device_name.h"
#include "../base/ndarray.h"
#include "../names/path.h"
#include "describe.h"

#include <stdio.h>
#include <string.h>

PyObject *
ia_cost_build(const ia_cost *cost)
{
    PyObject *biggest = PyList_New(0);
    for (int i = 0; biggest && i < cost->nbiggest; i++) {
        const ia_node_cost *n = &cost->biggest[i];
        ia_list_add(&biggest, Py_BuildValue("(NKK)", ia_str(n->name),
                                            (unsigned long long)n->count,
                                            (unsigned long long)n->bytes));
    }
    PyObject *on = biggest ? PyList_New(0) : NULL;
    for (int i = 0; on && i < cost->non; i++)
        ia_list_add(&on, Py_BuildValue(
                             "(NK)", ia_device_build(cost->on[i].device),
                             (unsigned long long)cost->on[i].bytes));
    if (on == NULL) {
        Py_XDECREF(biggest);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:N}", "on", on,
                         "bytes",
                         (unsigned long long)cost->bytes, "storages",
                         (unsigned long long)cost->storages, "nodes",
                         (unsigned long long)cost->nodes, "node_bytes",
                         (unsigned long long)cost->node_bytes, "saved",
                         (unsigned long long)cost->saved, "saved_bytes",
                         (unsigned long long)cost->saved_bytes, "items",
                         (unsigned long long)cost->items, "freed_items",
                         (unsigned long long)cost->freed_items, "biggest",
                         biggest);
}

static PyObject *
build_retained(uint64_t bytes, uint64_t node_bytes)
{
    return Py_BuildValue("(KK)", (unsigned long long)bytes,
                         (unsigned long long)node_bytes);
}

PyObject *
ia_ways_build(const ia_ways *ways, uint32_t group, const uint32_t *objects,
              Py_ssize_t depth, const ia_cost *cost)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t at = 0; list && at < depth - 1; at++) {
        const ia_waypoint *point = ia_ways_at(ways, objects[at], group);
        ia_list_add(&list, point ? build_retained(point->bytes,
                                                  point->node_bytes)
                                 : Py_NewRef(Py_None));
    }
    if (list != NULL && depth > 0)
        ia_list_add(&list, cost ? build_retained(cost->bytes,
                                                 cost->node_bytes)
                                : Py_NewRef(Py_None));
    return list;
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

static int
describe(PyObject *op, ia_tensor_info *info)
{
    int kind = ia_kind_of(Py_TYPE(op));
    if (kind == IA_KIND_TENSOR)
        return ia_the_framework->describe_tensor(op, info);
    if (kind == IA_KIND_NDARRAY)
        ia_ndarray_describe(op, info);
    return kind == IA_KIND_NDARRAY;
}

PyObject *
ia_tensor_build(uintptr_t ref, uint16_t device_code, uint64_t bytes)
{
    ia_tensor_info info = {.dims = -1};
    int known = IA_TAG(ref) == IA_TAG_OBJECT &&
                describe((PyObject *)ref, &info);
    PyObject *shape = known ? build_shape(&info) : Py_NewRef(Py_None);
    PyObject *device = shape ? ia_device_build(device_code) : NULL;
    if (device == NULL) {
        Py_XDECREF(shape);
        return NULL;
    }
    PyObject *dtype = known ? ia_str(info.dtype) : Py_NewRef(Py_None);
    return Py_BuildValue("{s:N,s:N,s:N,s:K,s:i}", "shape", shape, "dtype",
                         dtype, "device", device, "bytes",
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
        [IA_FOR_ARRAY] = "numpy",
    };
    return names[purpose];
}

/* What of a framework's own has no purpose that is known is of that framework:
 * "jax" of "jax:cpu:0". */
static void
device_family(uint16_t device, char *out, size_t size)
{
    ia_device_name(device, out, size);
    out[strcspn(out, ":")] = 0;
}

static int
is_of_family(const ia_reached *r)
{
    return r->purpose == IA_FOR_UNKNOWN && ia_device_is_named(r->device);
}

static int
add_family(PyObject *dict, const ia_reached *r)
{
    char name[32];
    device_family(r->device, name, sizeof name);
    PyObject *before = PyDict_GetItemString(dict, name);
    uint64_t bytes =
        r->bytes + (before ? PyLong_AsUnsignedLongLong(before) : 0);
    PyObject *sum = PyLong_FromUnsignedLongLong(bytes);
    int result = sum ? PyDict_SetItemString(dict, name, sum) : -1;
    Py_XDECREF(sum);
    return result;
}

static PyObject *
build_purposes(const uint64_t *bytes)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < IA_PURPOSES; i++)
        ia_dict_add(&dict, PyUnicode_FromString(ia_purpose_name(i)),
                    PyLong_FromUnsignedLongLong(bytes[i]));
    return dict;
}

PyObject *
ia_older_build(const ia_storages *s)
{
    uint64_t bytes[IA_PURPOSES] = {0};
    for (uint32_t i = 0; i < s->count; i++)
        if (ia_is_older(&s->items[i]) && !is_of_family(&s->items[i]))
            bytes[s->items[i].purpose] += s->items[i].bytes;
    PyObject *dict = build_purposes(bytes);
    for (uint32_t i = 0; dict && i < s->count; i++)
        if (ia_is_older(&s->items[i]) && is_of_family(&s->items[i]) &&
            add_family(dict, &s->items[i]) < 0)
            Py_CLEAR(dict);
    return dict;
}

PyObject *
ia_purposes_build(const ia_storages *s)
{
    uint64_t bytes[IA_PURPOSES] = {0}, claimed = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const ia_reached *r = &s->items[i];
        if (r->in_ledger && !r->allowed && (r->claimed || !is_of_family(r)))
            *(r->claimed ? &claimed : &bytes[r->purpose]) += r->bytes;
    }
    PyObject *dict = build_purposes(bytes);
    for (uint32_t i = 0; dict && i < s->count; i++) {
        const ia_reached *r = &s->items[i];
        if (r->in_ledger && !r->allowed && !r->claimed && is_of_family(r) &&
            add_family(dict, r) < 0)
            Py_CLEAR(dict);
    }
    if (dict != NULL)
        ia_dict_add(&dict, PyUnicode_FromString("claimed"),
                    PyLong_FromUnsignedLongLong(claimed));
    return dict;
}

/* Bytes of a type below which it is left out: what is kept until a second
 * walk must not show in that one. */
#define LEAST_TYPE 65536

/* What most of the type's bytes surely hang on: (bytes, address, path), or
 * (0, 0, None). */
static PyObject *
build_owner(const ia_type_total *total, const ia_walk *w)
{
    uint32_t by = total->by;
    if (2 * total->votes < total->bytes || by >= w->rooted_entries)
        return Py_BuildValue("(iiO)", 0, 0, Py_None);
    return Py_BuildValue("(KKN)", (unsigned long long)total->votes,
                         (unsigned long long)IA_ADDRESS(w->queue[by].ref),
                         ia_path_build(w, by, IA_NO_ENTRY, NULL));
}

/* Two types of one name are one line, without what they hang on. */
static int
add_type(PyObject *types, const ia_type_total *total, const ia_walk *w)
{
    char name[128];
    ia_type_name(total->type, name, sizeof name);
    PyObject *key = ia_str(name), *value = NULL, *owner = NULL;
    PyObject *before = key ? PyDict_GetItemWithError(types, key) : NULL;
    uint64_t count = total->count, bytes = total->bytes;
    if (before != NULL) {
        count += PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(before, 0));
        bytes += PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(before, 1));
        owner = Py_BuildValue("(iiO)", 0, 0, Py_None);
    } else if (key != NULL && !PyErr_Occurred()) {
        owner = build_owner(total, w);
    }
    if (owner != NULL)
        value = Py_BuildValue("(KKN)", (unsigned long long)count,
                              (unsigned long long)bytes, owner);
    int result = value ? PyDict_SetItem(types, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return result;
}

PyObject *
ia_tally_build(const ia_tally *t, const ia_walk *w)
{
    PyObject *types = PyDict_New();
    for (uint32_t i = 0; types && i < t->ntypes; i++)
        if (t->types[i].bytes >= LEAST_TYPE &&
            add_type(types, &t->types[i], w) < 0)
            Py_CLEAR(types);
    if (types == NULL)
        return NULL;
    return Py_BuildValue("{s:N,s:K,s:K,s:K,s:K,s:K,s:K}", "types", types,
                         "bytes",
                         (unsigned long long)t->bytes, "malloc",
                         (unsigned long long)t->malloc, "own",
                         (unsigned long long)t->own, "own_malloc",
                         (unsigned long long)t->own_malloc, "nodes",
                         (unsigned long long)t->nodes, "arrays",
                         (unsigned long long)t->arrays);
}
