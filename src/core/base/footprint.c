/* How much memory a Python object takes. */

#include "compat.h"
#include "footprint.h"

#include <string.h>

/* Python's own allocator gives blocks up to SMALL bytes, in steps of STEP;
 * what is larger comes from malloc, which puts a header before it. */
#define SMALL 512
#define STEP 16
#define MALLOC_HEADER 8

static int all_by_malloc; /* PYTHONMALLOC=malloc */

void
ia_footprint_begin(void)
{
    PyMemAllocatorEx raw, small;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &raw);
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &small);
    all_by_malloc = raw.malloc == small.malloc;
}

static void
add_blocks(ia_footprint *f, size_t count, size_t asked)
{
    if (asked == 0)
        return;
    int large = asked > SMALL || all_by_malloc;
    size_t bytes = asked + (large ? MALLOC_HEADER : 0);
    bytes = (bytes + STEP - 1) / STEP * STEP;
    f->asked += count * asked;
    f->bytes += count * bytes;
    if (large)
        f->malloc += count * bytes;
}

static void
add_block(ia_footprint *f, size_t asked)
{
    add_blocks(f, 1, asked);
}

/* -- items in the object itself -------------------------------------------- */

/* Of types that are known to keep their number in ob_size: that of others may
 * be anything. */
static size_t
items_of(PyObject *op)
{
    size_t each = (size_t)Py_TYPE(op)->tp_itemsize;
    if (each == 0)
        return 0;
    if (PyLong_Check(op)) {
        Py_ssize_t digits = ia_int_digits(op);
        return each * (size_t)(digits > 0 ? digits : 1);
    }
    if (PyTuple_Check(op) || PyBytes_Check(op) || PyType_Check(op) ||
        PyCode_Check(op) || PyMemoryView_Check(op))
        return each * (size_t)Py_SIZE(op);
    return 0;
}

/* -- blocks beside it ------------------------------------------------------- */

static int
is_ready(PyObject *op)
{
#if PY_VERSION_HEX < 0x030C0000
    return PyUnicode_IS_READY(op) != 0;
#else
    (void)op;
    return 1;
#endif
}

/* Characters stand behind the object, but for a subclass's. */
static void
add_text(PyObject *op, size_t header, ia_footprint *f)
{
    PyCompactUnicodeObject *text = (PyCompactUnicodeObject *)op;
    PyTypeObject *type = Py_TYPE(op);
    size_t of_subclass =
        header + (size_t)type->tp_basicsize + ia_values_behind(type);
    if (!is_ready(op)) {
        add_block(f, of_subclass);
        return;
    }
    size_t characters =
        (size_t)(PyUnicode_GET_LENGTH(op) + 1) * (size_t)PyUnicode_KIND(op);
    if (PyUnicode_IS_COMPACT_ASCII(op)) {
        add_block(f, header + sizeof(PyASCIIObject) + characters);
        return;
    }
    if (PyUnicode_IS_COMPACT(op)) {
        add_block(f, header + sizeof *text + characters);
    } else {
        add_block(f, of_subclass);
        add_block(f, characters);
    }
    if (text->utf8 != NULL && text->utf8 != (char *)PyUnicode_DATA(op))
        add_block(f, (size_t)text->utf8_length + 1);
}

/* OrderedDict has a table of its own, and a node for each key. */
static void
add_dict(PyObject *op, ia_footprint *f)
{
    const PyDictObject *dict = (PyDictObject *)op;
    add_block(f, ia_values_apart(op));
    add_block(f, ia_keys_size(op));
    if (PyODict_Check(op) && dict->ma_used > 0) {
        add_block(f, (size_t)DK_SIZE(dict->ma_keys) * sizeof(void *));
        add_blocks(f, (size_t)dict->ma_used, 4 * sizeof(void *));
    }
}

/* The beginning of collections.deque, array.array and io.BytesIO, as they have
 * been since Python 3.5. */
typedef struct {
    PyObject_VAR_HEAD
    void *left, *right;
    Py_ssize_t left_index;
} deque_head;

#define DEQUE_ITEMS 64 /* in a block, between two links */

typedef struct {
    PyObject_VAR_HEAD
    char *items;
    Py_ssize_t room;
    const struct {
        char code;
        int size;
    } *kind;
} array_head;

typedef struct {
    PyObject_HEAD
    PyObject *buffer; /* exact bytes */
} bytes_io_head;

/* What it was made from, and what somebody reads it by, has a place of its
 * own: bytes that nothing else has are its memory. */
static void
add_bytes_io(PyObject *op, ia_footprint *f)
{
    PyObject *buffer = ((bytes_io_head *)op)->buffer;
    if (buffer != NULL && PyBytes_CheckExact(buffer) && Py_REFCNT(buffer) == 1)
        add_block(f, (size_t)Py_TYPE(buffer)->tp_basicsize +
                         (size_t)Py_SIZE(buffer));
}

static void
add_deque(PyObject *op, ia_footprint *f)
{
    deque_head *d = (deque_head *)op;
    size_t last = (size_t)(d->left_index + Py_SIZE(op));
    size_t blocks = last > 0 ? (last + DEQUE_ITEMS - 1) / DEQUE_ITEMS : 1;
    add_blocks(f, blocks, (DEQUE_ITEMS + 2) * sizeof(void *));
}

static int
is_exactly(PyTypeObject *type, const char *name, size_t least)
{
    return (size_t)type->tp_basicsize >= least &&
           strcmp(type->tp_name, name) == 0;
}

static void
add_of_library(PyObject *op, ia_footprint *f)
{
    PyTypeObject *type = Py_TYPE(op);
    char first = type->tp_name[0];
    if (first == 'c' &&
        is_exactly(type, "collections.deque", sizeof(deque_head)))
        add_deque(op, f);
    else if (first == '_' &&
             is_exactly(type, "_io.BytesIO", sizeof(bytes_io_head)))
        add_bytes_io(op, f);
    else if (first == 'a' &&
             is_exactly(type, "array.array", sizeof(array_head)))
        add_block(f, (size_t)((array_head *)op)->room *
                         (size_t)((array_head *)op)->kind->size);
}

static void
add_parts(PyObject *op, ia_footprint *f)
{
    PySetObject *set = (PySetObject *)op;
    if (PyList_Check(op))
        add_block(f, (size_t)((PyListObject *)op)->allocated *
                         sizeof(PyObject *));
    else if (PyDict_Check(op))
        add_dict(op, f);
    else if (PyAnySet_Check(op) && set->table != set->smalltable)
        add_block(f, (size_t)(set->mask + 1) * sizeof(setentry));
    else if (PyByteArray_Check(op))
        add_block(f, (size_t)((PyByteArrayObject *)op)->ob_alloc);
    else
        add_of_library(op, f);
    if (!PyDict_Check(op))
        add_block(f, ia_values_apart(op));
}

void
ia_footprint_of(PyObject *op, ia_footprint *f)
{
    PyTypeObject *type = Py_TYPE(op);
    size_t header = ia_header_size(type);
    *f = (ia_footprint){0};
    if (PyUnicode_Check(op)) {
        add_text(op, header, f);
        return;
    }
    add_block(f, header + (size_t)type->tp_basicsize + items_of(op) +
                     ia_values_behind(type));
    add_parts(op, f);
}
