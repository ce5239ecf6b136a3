/* Arrays of JAX: jaxlib's ArrayImpl, asked by its own C functions.
 *
 * An array on one device is its buffer; one on several is made of arrays on
 * one each, which jaxlib makes once and keeps.  What a shape, a type and a
 * placement amount to is remembered, as the outputs of a compiled function
 * share them from call to call.
 */
#include "ask.h"

#include <stdio.h>
#include <string.h>

static struct {
    PyObject *is_deleted, *address, *size;    /* owned: methods */
    PyObject *aval, *sharding, *pieces;       /* owned: getters */
} ask;

/* Direct-mapped, by the address of an object that is held meanwhile. */
#define REMEMBERED 256

static struct {
    PyObject *aval; /* owned */
    size_t bytes;
} sizes[REMEMBERED];

static struct {
    PyObject *sharding; /* owned */
    uint16_t device;
    int single;
} places[REMEMBERED];

static size_t
slot_of(PyObject *op)
{
    return ((uintptr_t)op >> 4) % REMEMBERED;
}

static int
is_gone(PyObject *op)
{
    PyObject *answer = ia_ask(ask.is_deleted, op);
    int gone = answer == NULL || answer == Py_True;
    Py_XDECREF(answer);
    return gone;
}

/* -- what is remembered ---------------------------------------------------- */

static size_t
bytes_of(PyObject *op)
{
    PyObject *aval = ia_ask(ask.aval, op);
    if (aval == NULL)
        return 0;
    size_t i = slot_of(aval);
    if (sizes[i].aval != aval) {
        size_t bytes = ia_ask_number(ia_ask(ask.size, op));
        PyObject *before = sizes[i].aval;
        sizes[i].aval = Py_NewRef(aval);
        sizes[i].bytes = bytes;
        Py_XDECREF(before);
    }
    Py_DECREF(aval);
    return sizes[i].bytes;
}

/* "jax:cpu:0" of the first device of a list. */
static uint16_t
name_device(PyObject *devices)
{
    char name[32] = "jax";
    PyObject *device = PySequence_GetItem(devices, 0);
    PyObject *kind =
        device ? PyObject_GetAttrString(device, "platform") : NULL;
    PyObject *id = device ? PyObject_GetAttrString(device, "id") : NULL;
    const char *text = kind ? PyUnicode_AsUTF8(kind) : NULL;
    if (text != NULL && id != NULL)
        snprintf(name, sizeof name, "jax:%.16s:%zu", text,
                 ia_ask_number(Py_NewRef(id)));
    Py_XDECREF(device);
    Py_XDECREF(kind);
    Py_XDECREF(id);
    PyErr_Clear();
    return ia_api->device_named(name);
}

/* Where an array is: its slot in `places`, or -1. */
static Py_ssize_t
place_of(PyObject *op)
{
    PyObject *sharding = ia_ask(ask.sharding, op);
    if (sharding == NULL)
        return -1;
    size_t i = slot_of(sharding);
    if (places[i].sharding != sharding) {
        PyObject *devices =
            PyObject_GetAttrString(sharding, "_internal_device_list");
        PyObject *before = places[i].sharding;
        places[i].single = devices != NULL && PyObject_Size(devices) == 1;
        places[i].device = devices != NULL ? name_device(devices)
                                           : ia_api->device_named("jax");
        places[i].sharding = Py_NewRef(sharding);
        Py_XDECREF(devices);
        Py_XDECREF(before);
        PyErr_Clear();
    }
    Py_DECREF(sharding);
    return (Py_ssize_t)i;
}

/* -- memory ---------------------------------------------------------------- */

static void
add_piece(PyObject *op, uint16_t device, PyObject *part, ia_pieces *out)
{
    uintptr_t at = ia_ask_number(ia_ask(ask.address, op));
    if (at == 0 || out->count == IA_MOST_PIECES)
        return;
    out->parts[out->count] = part;
    out->items[out->count++] = (ia_storage){at, at, bytes_of(op), device};
}

/* jaxlib keeps the parts; since 0.12 it keeps the list, which has them. */
static void
add_pieces(PyObject *op, ia_pieces *out)
{
    PyObject *list = ia_ask(ask.pieces, op);
    out->list = list != NULL && Py_REFCNT(list) > 1 ? list : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        PyObject *piece = PyList_GET_ITEM(list, i);
        Py_ssize_t place =
            Py_TYPE(piece) == ia_jax.type ? place_of(piece) : -1;
        if (place >= 0 && places[place].single)
            add_piece(piece, places[place].device, piece, out);
    }
    Py_XDECREF(list);
}

static void
read_array(PyObject *op, ia_pieces *out)
{
    Py_ssize_t place = place_of(op);
    if (place >= 0 && places[place].single)
        add_piece(op, places[place].device, NULL, out); /* none where gone */
    else if (place >= 0 && !is_gone(op))
        add_pieces(op, out);
}

/* -- words ----------------------------------------------------------------- */

/* "float32" of numpy.float32, "bfloat16" of ml_dtypes.bfloat16. */
static void
put_dtype(PyObject *dtype, ia_tensor_info *info)
{
    PyObject *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
    if (type != NULL && PyType_Check(type)) {
        const char *name = ((PyTypeObject *)type)->tp_name;
        const char *last = strrchr(name, '.');
        snprintf(info->dtype, sizeof info->dtype, "%s",
                 last ? last + 1 : name);
    }
    Py_XDECREF(type);
}

static void
describe(PyObject *op, ia_tensor_info *info)
{
    PyObject *aval = ia_ask(ask.aval, op);
    PyObject *shape = aval ? PyObject_GetAttrString(aval, "shape") : NULL;
    PyObject *dtype = aval ? PyObject_GetAttrString(aval, "dtype") : NULL;
    ia_ask_put_shape(shape, info);
    put_dtype(dtype, info);
    Py_XDECREF(aval);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    PyErr_Clear();
}

ia_array_class ia_jax = {
    .read = read_array,
    .is_gone = is_gone,
    .describe = describe,
};

/* -- beginning and end ----------------------------------------------------- */

static PyObject *
method_of(PyObject *type, const char *name)
{
    return PyObject_GetAttrString(type, name);
}

static PyObject *
getter_of(PyObject *type, const char *name)
{
    PyObject *property = PyObject_GetAttrString(type, name);
    PyObject *getter =
        property ? PyObject_GetAttrString(property, "fget") : NULL;
    Py_XDECREF(property);
    return getter;
}

void
ia_jax_clear(void)
{
    for (size_t i = 0; i < REMEMBERED; i++) {
        Py_CLEAR(sizes[i].aval);
        Py_CLEAR(places[i].sharding);
    }
}

int
ia_jax_init(PyObject *array_class)
{
    if (ia_jax.type != NULL)
        return 0;
    if (ia_ask_keep(&ask.is_deleted,
                    method_of(array_class, "is_deleted")) < 0 ||
        ia_ask_keep(&ask.address,
                    method_of(array_class, "unsafe_buffer_pointer")) < 0 ||
        ia_ask_keep(&ask.size,
                    method_of(array_class, "on_device_size_in_bytes")) < 0 ||
        ia_ask_keep(&ask.aval, getter_of(array_class, "aval")) < 0 ||
        ia_ask_keep(&ask.sharding, getter_of(array_class, "_sharding")) < 0 ||
        ia_ask_keep(&ask.pieces, getter_of(array_class, "_arrays")) < 0)
        return -1;
    if (ia_class_refuses((PyTypeObject *)array_class))
        return -1;
    ia_jax.type = (PyTypeObject *)Py_NewRef(array_class);
    return 0;
}
