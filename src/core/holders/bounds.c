/* The most that a holder can have by its type. */

#include "../base/compat.h"
#include "../base/read.h"
#include "../names/lru_cache.h"
#include "bounds.h"

#include <limits.h>
#include <string.h>

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

/* Queues of Python's own: where they are defined, which attribute has the
 * items, and which says how many they may be. */
static const struct {
    const char *module, *type, *items, *most;
} queues[] = {
    {"queue", "Queue", "queue", "maxsize"},
    {"queue", "LifoQueue", "queue", "maxsize"},
    {"queue", "PriorityQueue", "queue", "maxsize"},
    {"multiprocessing.queues", "Queue", "_buffer", "_maxsize"},
    {"multiprocessing.queues", "JoinableQueue", "_buffer", "_maxsize"},
    {"asyncio.queues", "Queue", "_queue", "_maxsize"},
    {"asyncio.queues", "LifoQueue", "_queue", "_maxsize"},
    {"asyncio.queues", "PriorityQueue", "_queue", "_maxsize"},
};

/* What `owner` says if it is such a queue and these are its items.  One that
 * has more was filled past its put(), and has no bound. */
static PyObject *
queue_most(PyObject *owner, PyObject *items)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *home = ia_dict_value(ia_type_dict(type), "__module__");
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        if (strcmp(type->tp_name, queues[i].type) != 0 ||
            strcmp(ia_utf8(home), queues[i].module) != 0 ||
            ia_instance_attribute(owner, queues[i].items) != items)
            continue;
        PyObject *most = ia_instance_attribute(owner, queues[i].most);
        if (most == NULL || !PyLong_CheckExact(most))
            return NULL;
        int overflow;
        long long bound = PyLong_AsLongLongAndOverflow(most, &overflow);
        return overflow == 0 && bound > 0 &&
                       bound >= ia_container_length(items)
                   ? most
                   : NULL;
    }
    return NULL;
}

/* References between a queue and its items: the instance's dict. */
#define MAX_QUEUE_HOPS 2

/* Borrowed, or NULL. */
static PyObject *
queue_bound(const ia_walk *w, uint32_t entry)
{
    PyObject *items = (PyObject *)w->queue[entry].ref;
    for (int hop = 0; hop < MAX_QUEUE_HOPS; hop++) {
        entry = w->queue[entry].parent;
        if (entry == IA_NO_ENTRY ||
            IA_TAG(w->queue[entry].ref) != IA_TAG_OBJECT)
            return NULL;
        PyObject *most = queue_most((PyObject *)w->queue[entry].ref, items);
        if (most != NULL)
            return most;
    }
    return NULL;
}

/* Items that itertools.tee() keeps together: a block of them is let go of when
 * the last of them has been read, and leads to the next. */
#define TEE_BLOCK 57

int
ia_is_tee_block(PyObject *op)
{
    return strcmp(Py_TYPE(op)->tp_name, "itertools._tee_dataobject") == 0;
}

static int
find_block(PyObject *op, void *arg)
{
    PyObject **found = arg;
    if (op != NULL && ia_is_tee_block(op))
        *found = op;
    return *found != NULL;
}

static int
is_block_at(const ia_walk *w, uint32_t entry)
{
    return entry != IA_NO_ENTRY &&
           IA_TAG(w->queue[entry].ref) == IA_TAG_OBJECT &&
           ia_is_tee_block((PyObject *)w->queue[entry].ref);
}

/* Iterators that keep step have the block that they read and the one that is
 * being filled; one that has more is behind, and nothing bounds by how much. */
static PyObject *
tee_bound(const ia_walk *w, uint32_t entry)
{
    int blocks = 1;
    uint32_t up = w->queue[entry].parent;
    for (; blocks < 3 && is_block_at(w, up); up = w->queue[up].parent)
        blocks++;
    PyObject *block = (PyObject *)w->queue[entry].ref;
    for (PyObject *next = block; blocks < 3 && next != NULL; block = next) {
        next = NULL;
        Py_TYPE(block)->tp_traverse(block, find_block, &next);
        blocks += next != NULL;
    }
    return blocks < 3 ? PyLong_FromLong(2L * TEE_BLOCK) : Py_NewRef(Py_None);
}

/* The most by the type alone, or None. */
static PyObject *
bound_by_type(PyObject *op)
{
    PyTypeObject *deque = ia_base_named(Py_TYPE(op), "collections.deque");
    if (deque != NULL)
        return deque_bound(deque, op);
    if (ia_base_named(Py_TYPE(op), "functools._lru_cache_wrapper"))
        return lru_bound(op);
    return Py_NewRef(Py_None);
}

PyObject *
ia_bound_of(const ia_walk *w, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return Py_NewRef(Py_None);
    PyObject *op = (PyObject *)ref;
    if (ia_is_tee_block(op))
        return tee_bound(w, entry);
    int is_list = PyList_CheckExact(op);
    PyObject *most = is_list || ia_base_named(Py_TYPE(op), "collections.deque")
                         ? queue_bound(w, entry) : NULL;
    if (most != NULL)
        return Py_NewRef(most);
    return is_list ? history_bound(w, entry) : bound_by_type(op);
}

/* Adds what one item can have; 0 where it has no bound. */
static int
add_bound(PyObject *item, long long *sum)
{
    int overflow = 0;
    PyObject *bound = bound_by_type(item);
    long long most = bound && PyLong_CheckExact(bound)
                         ? PyLong_AsLongLongAndOverflow(bound, &overflow) : -1;
    PyErr_Clear();
    Py_XDECREF(bound);
    if (most < 0 || overflow || *sum > LLONG_MAX - most)
        return 0;
    *sum += most;
    return 1;
}

long long
ia_bound_within(const ia_walk *w, uint32_t entry)
{
    uintptr_t ref = w->queue[entry].ref;
    PyObject *op = (PyObject *)ref, *key, *value;
    long long sum = 0;
    Py_ssize_t pos = 0;
    if (IA_TAG(ref) != IA_TAG_OBJECT)
        return -1;
    if (PyDict_Check(op)) {
        while (PyDict_Next(op, &pos, &key, &value))
            if (!add_bound(value, &sum))
                return -1;
    } else if (PyList_CheckExact(op) || PyTuple_CheckExact(op)) {
        for (; pos < PySequence_Fast_GET_SIZE(op); pos++)
            if (!add_bound(PySequence_Fast_GET_ITEM(op, pos), &sum))
                return -1;
    } else {
        return -1;
    }
    return pos > 0 ? sum : -1;
}
