/* Tensors of TensorFlow: EagerTensor, asked by its own C functions.
 *
 * A tensor in the host's memory is its buffer, which NumPy is shown without a
 * copy; elsewhere it goes by its object's own address.  A variable is a
 * resource: the tensor that is its handle has no memory, and says what shape
 * and type the resource has.
 */
#include "ask.h"

#include <stdio.h>
#include <string.h>

/* Of tensorflow.DType's numbers those that are asked about by name. */
#define DT_STRING 7
#define DT_RESOURCE 20

/* A string is sizeof(tensorflow::tstring), whatever it is made of besides. */
static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [1] = {"float32", 4},   [2] = {"float64", 8},  [3] = {"int32", 4},
    [4] = {"uint8", 1},     [5] = {"int16", 2},    [6] = {"int8", 1},
    [7] = {"string", 24},   [8] = {"complex64", 8}, [9] = {"int64", 8},
    [10] = {"bool", 1},     [14] = {"bfloat16", 2}, [17] = {"uint16", 2},
    [18] = {"complex128", 16}, [19] = {"float16", 2}, [20] = {"resource", 0},
    [21] = {"variant", 0},  [22] = {"uint32", 4},  [23] = {"uint64", 8},
};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

static struct {
    PyObject *count, *dtype, *shape, *numpy; /* owned: methods */
    PyObject *device, *data;                 /* owned: names of attributes */
} ask;

static size_t
bytes_of_dtype(size_t dtype)
{
    return dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

/* -- where it is ----------------------------------------------------------- */

/* "tensorflow:cpu:0" of ".../device:CPU:0"; *on_host is set. */
static uint16_t
device_of(PyObject *op, int *on_host)
{
    char name[32] = "tensorflow";
    PyObject *text = PyObject_GetAttr(op, ask.device);
    const char *full = text ? PyUnicode_AsUTF8(text) : NULL;
    const char *last = full ? strstr(full, "device:") : NULL;
    *on_host = last != NULL && strncmp(last, "device:CPU:", 11) == 0;
    if (*on_host)
        snprintf(name, sizeof name, "tensorflow:cpu:%.4s", last + 11);
    else if (last != NULL)
        snprintf(name, sizeof name, "tensorflow:%.12s", last + 7);
    Py_XDECREF(text);
    PyErr_Clear();
    return ia_api->device_named(name);
}

/* -- what it has ----------------------------------------------------------- */

/* The buffer that NumPy is shown: 0 where there is none.  Of a scalar it makes
 * a copy. */
static int
find_buffer(PyObject *op, ia_storage *piece)
{
    Py_buffer view;
    int found = 0;
    PyObject *array = ia_ask(ask.numpy, op);
    if (array != NULL && PyObject_GetBuffer(array, &view, PyBUF_ND) == 0) {
        found = view.ndim > 0;
        if (found) {
            piece->data = piece->impl = (uintptr_t)view.buf;
            piece->bytes = (size_t)view.len;
        }
        PyBuffer_Release(&view);
    }
    Py_XDECREF(array);
    PyErr_Clear();
    return found;
}

static PyObject *
attribute(PyObject *op, const char *name)
{
    PyObject *value = op ? PyObject_GetAttrString(op, name) : NULL;
    Py_XDECREF(op);
    return value;
}

/* Elements of a shape as TensorFlow's messages have it; takes it. */
static size_t
elements(PyObject *shape)
{
    size_t n = 1;
    PyObject *dims = attribute(shape, "dim");
    Py_ssize_t count = dims ? PySequence_Size(dims) : -1;
    for (Py_ssize_t i = 0; i < count; i++)
        n *= ia_ask_number(attribute(PySequence_GetItem(dims, i), "size"));
    Py_XDECREF(dims);
    return count < 0 ? 0 : n;
}

/* Bytes of the variable that a handle stands for. */
static size_t
bytes_of_resource(PyObject *op)
{
    PyObject *list =
        attribute(PyObject_GetAttr(op, ask.data), "shape_and_type");
    PyObject *one = list ? PySequence_GetItem(list, 0) : NULL;
    size_t bytes = 0;
    if (one != NULL)
        bytes = bytes_of_dtype(ia_ask_number(
                    PyObject_GetAttrString(one, "dtype"))) *
                elements(PyObject_GetAttrString(one, "shape"));
    Py_XDECREF(list);
    Py_XDECREF(one);
    PyErr_Clear();
    return bytes;
}

static void
find_piece(PyObject *op, ia_storage *piece)
{
    int on_host;
    size_t dtype = ia_ask_number(ia_ask(ask.dtype, op));
    piece->device = device_of(op, &on_host);
    piece->data = piece->impl = (uintptr_t)op;
    if (dtype == DT_RESOURCE)
        piece->bytes = bytes_of_resource(op);
    else if (dtype == DT_STRING || !on_host || !find_buffer(op, piece))
        piece->bytes = bytes_of_dtype(dtype) *
                       ia_ask_number(ia_ask(ask.count, op));
}

static void
read_tensor(PyObject *op, ia_pieces *out)
{
    out->parts[0] = NULL;
    out->items[0] = (ia_storage){0};
    find_piece(op, &out->items[0]);
    out->count = 1;
}

static int
is_gone(PyObject *op)
{
    (void)op;
    return 0;
}

static void
describe(PyObject *op, ia_tensor_info *info)
{
    size_t dtype = ia_ask_number(ia_ask(ask.dtype, op));
    PyObject *shape = ia_ask(ask.shape, op);
    ia_ask_put_shape(shape, info);
    if (dtype < DTYPES && dtypes[dtype].name != NULL)
        snprintf(info->dtype, sizeof info->dtype, "%s", dtypes[dtype].name);
    Py_XDECREF(shape);
    PyErr_Clear();
}

ia_array_class ia_tensorflow = {
    .read = read_tensor,
    .is_gone = is_gone,
    .describe = describe,
};

/* -- beginning ------------------------------------------------------------- */

void
ia_tensorflow_clear(void)
{
}

int
ia_tensorflow_init(PyObject *tensor_class, PyObject *tape_class)
{
    PyObject *type = tensor_class;
    if (ia_tensorflow.type != NULL)
        return 0;
    if (ia_ask_keep(&ask.count,
                    PyObject_GetAttrString(type, "_num_elements")) < 0 ||
        ia_ask_keep(&ask.dtype,
                    PyObject_GetAttrString(type, "_datatype_enum")) < 0 ||
        ia_ask_keep(&ask.shape,
                    PyObject_GetAttrString(type, "_shape_tuple")) < 0 ||
        ia_ask_keep(&ask.numpy,
                    PyObject_GetAttrString(type, "_numpy_internal")) < 0 ||
        ia_ask_keep(&ask.device,
                    PyUnicode_InternFromString("backing_device")) < 0 ||
        ia_ask_keep(&ask.data,
                    PyUnicode_InternFromString("_handle_data")) < 0 ||
        ia_class_refuses((PyTypeObject *)type) ||
        ia_tape_init(tape_class) < 0)
        return -1;
    ia_tensorflow.type = (PyTypeObject *)Py_NewRef(type);
    return 0;
}
