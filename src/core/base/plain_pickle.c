/* Pickles of plain data: a stack machine of thirty opcodes.
 *
 * Every length is compared with what is left of the file before anything is
 * allocated for it, and the memo takes the next free number only, so that no
 * figure in a file is believed.  Keys are str or int alone: the hash of a
 * tuple that holds itself a million times over would never end.
 */

#include "plain_pickle.h"

#include "array.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Opcodes between two looks whether the user has interrupted. */
#define PATIENCE (1u << 20)

typedef struct {
    const unsigned char *begin, *at, *end;
    PyObject **stack; /* owned, and so is each of the `depth` */
    PyObject **memo;  /* owned, and so is each of the `memos` */
    uint32_t *marks;  /* owned: depths */
    uint32_t depth, room, memos, memo_room, nmarks, mark_room;
} reader;

/* -- what may be wrong ---------------------------------------------------- */

static int
wrong(const reader *r, const char *what)
{
    PyErr_Format(PyExc_ValueError, "%s at byte %zu", what,
                 (size_t)(r->at - r->begin));
    return -1;
}

static int
no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

static int
cut_off(const reader *r)
{
    return wrong(r, "it ends too early or a length is wrong,");
}

/* Names of the opcodes by which pickles import, call and ask. */
static const char *
refused(unsigned char opcode)
{
    switch (opcode) {
    case 'c': return "GLOBAL";
    case 0x93: return "STACK_GLOBAL";
    case 'R': return "REDUCE";
    case 'b': return "BUILD";
    case 'i': return "INST";
    case 'o': return "OBJ";
    case 0x81: return "NEWOBJ";
    case 0x92: return "NEWOBJ_EX";
    case 'P': return "PERSID";
    case 'Q': return "BINPERSID";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    case 0x97: return "NEXT_BUFFER";
    case 0x98: return "READONLY_BUFFER";
    default: return NULL;
    }
}

static int
not_plain(reader *r, unsigned char opcode)
{
    const char *name = refused(opcode);
    char text[64];
    r->at--;
    if (name != NULL)
        snprintf(text, sizeof text, "it wants more than plain data, %s",
                 name);
    else
        snprintf(text, sizeof text, "unknown opcode 0x%02x", opcode);
    return wrong(r, text);
}

/* -- the file ------------------------------------------------------------- */

/* An unsigned number of `size` bytes, little end first. */
static int
number(reader *r, int size, uint64_t *out)
{
    *out = 0;
    if (r->end - r->at < size)
        return cut_off(r);
    for (int i = 0; i < size; i++)
        *out |= (uint64_t)r->at[i] << (8 * i);
    r->at += size;
    return 0;
}

/* So many bytes of the file, after a length of `size` bytes. */
static const unsigned char *
piece(reader *r, int size, uint64_t *length)
{
    if (number(r, size, length) < 0)
        return NULL;
    if (*length > (uint64_t)(r->end - r->at)) {
        cut_off(r);
        return NULL;
    }
    const unsigned char *found = r->at;
    r->at += *length;
    return found;
}

/* -- the stack ------------------------------------------------------------ */

/* Takes the reference, also where it fails; NULL: an exception is set. */
static int
push(reader *r, PyObject *object)
{
    if (object == NULL)
        return -1;
    if (IA_ROOM(r->stack, r->room, (uint64_t)r->depth + 1) < 0) {
        Py_DECREF(object);
        return no_memory();
    }
    r->stack[r->depth++] = object;
    return 0;
}

/* The least depth that may be popped: nothing below a mark is. */
static uint32_t
ground(const reader *r)
{
    return r->nmarks ? r->marks[r->nmarks - 1] : 0;
}

static int
needs(const reader *r, uint32_t items)
{
    return r->depth - ground(r) >= items ? 0
                                         : wrong(r, "too little on the stack");
}

/* The depth of the last mark, which is taken away. */
static int
pop_mark(reader *r, uint32_t *from)
{
    if (r->nmarks == 0)
        return wrong(r, "no mark");
    *from = r->marks[--r->nmarks];
    return 0;
}

static void
drop(reader *r, uint32_t to)
{
    while (r->depth > to)
        Py_DECREF(r->stack[--r->depth]);
}

/* -- containers ----------------------------------------------------------- */

static int
tuple_from(reader *r, uint32_t from)
{
    PyObject *tuple = PyTuple_New(r->depth - from);
    if (tuple == NULL)
        return -1;
    for (uint32_t i = from; i < r->depth; i++)
        PyTuple_SET_ITEM(tuple, i - from, r->stack[i]); /* taken over */
    r->depth = from;
    return push(r, tuple);
}

static int
short_tuple(reader *r, uint32_t items)
{
    return needs(r, items) < 0 ? -1 : tuple_from(r, r->depth - items);
}

static int
marked_tuple(reader *r)
{
    uint32_t from;
    return pop_mark(r, &from) < 0 ? -1 : tuple_from(r, from);
}

/* Appends what lies from `from` on to the list below it. */
static int
append(reader *r, uint32_t from)
{
    PyObject *list = from > ground(r) ? r->stack[from - 1] : NULL;
    if (list == NULL || !PyList_CheckExact(list))
        return wrong(r, "no list to append to");
    for (uint32_t i = from; i < r->depth; i++)
        if (PyList_Append(list, r->stack[i]) < 0)
            return -1;
    drop(r, from);
    return 0;
}

static int
set_items(reader *r, uint32_t from)
{
    PyObject *dict = from > ground(r) ? r->stack[from - 1] : NULL;
    if (dict == NULL || !PyDict_CheckExact(dict) || (r->depth - from) % 2)
        return wrong(r, "no dict to set items of");
    for (uint32_t i = from; i < r->depth; i += 2) {
        PyObject *key = r->stack[i];
        if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key))
            return wrong(r, "a key that is neither str nor int");
        if (PyDict_SetItem(dict, key, r->stack[i + 1]) < 0)
            return -1;
    }
    drop(r, from);
    return 0;
}

static int
marked(reader *r, int (*take)(reader *, uint32_t))
{
    uint32_t from;
    return pop_mark(r, &from) < 0 ? -1 : take(r, from);
}

static int
unmarked(reader *r, uint32_t items, int (*take)(reader *, uint32_t))
{
    return needs(r, items) < 0 ? -1 : take(r, r->depth - items);
}

/* -- the memo ------------------------------------------------------------- */

static int
memoize(reader *r, uint64_t index)
{
    if (needs(r, 1) < 0)
        return -1;
    if (index > r->memos)
        return wrong(r, "a memo number out of turn");
    PyObject *object = Py_NewRef(r->stack[r->depth - 1]);
    if (index < r->memos) {
        Py_SETREF(r->memo[index], object);
        return 0;
    }
    if (IA_ROOM(r->memo, r->memo_room, (uint64_t)r->memos + 1) < 0) {
        Py_DECREF(object);
        return no_memory();
    }
    r->memo[r->memos++] = object;
    return 0;
}

static int
put(reader *r, int size)
{
    uint64_t index;
    return number(r, size, &index) < 0 ? -1 : memoize(r, index);
}

static int
get(reader *r, int size)
{
    uint64_t index;
    if (number(r, size, &index) < 0)
        return -1;
    if (index >= r->memos)
        return wrong(r, "an unknown memo number");
    return push(r, Py_NewRef(r->memo[index]));
}

/* -- values --------------------------------------------------------------- */

static int
small_int(reader *r, int size)
{
    uint64_t value;
    if (number(r, size, &value) < 0)
        return -1;
    return push(r, PyLong_FromLong(size == 4 ? (long)(int32_t)value
                                             : (long)value));
}

/* Two's complement.  What has more than 64 bits is no figure of a snapshot,
 * and Python's own arithmetic on long ones takes quadratic time. */
static int
long_int(reader *r, int size)
{
    uint64_t length, value = 0;
    const unsigned char *bytes = piece(r, size, &length);
    if (bytes == NULL)
        return -1;
    for (uint64_t i = 0; i < length && i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    if (length == 9 && bytes[8] == 0)
        return push(r, PyLong_FromUnsignedLongLong(value));
    if (length > 8)
        return wrong(r, "too long an integer");
    if (length > 0 && length < 8 && bytes[length - 1] & 0x80)
        value |= UINT64_MAX << (8 * length);
    return push(r, PyLong_FromLongLong((int64_t)value));
}

static int
real(reader *r)
{
    double value;
    if (r->end - r->at < 8)
        return cut_off(r);
    value = PyFloat_Unpack8((const char *)r->at, 0);
    if (value == -1.0 && PyErr_Occurred())
        return -1;
    r->at += 8;
    return push(r, PyFloat_FromDouble(value));
}

static int
text(reader *r, int size)
{
    uint64_t length;
    const unsigned char *bytes = piece(r, size, &length);
    if (bytes == NULL)
        return -1;
    return push(r, PyUnicode_DecodeUTF8((const char *)bytes,
                                        (Py_ssize_t)length, "surrogatepass"));
}

static int
raw(reader *r, int size)
{
    uint64_t length;
    const unsigned char *bytes = piece(r, size, &length);
    if (bytes == NULL)
        return -1;
    return push(r, PyBytes_FromStringAndSize((const char *)bytes,
                                             (Py_ssize_t)length));
}

static int
mark(reader *r)
{
    if (IA_ROOM(r->marks, r->mark_room, (uint64_t)r->nmarks + 1) < 0)
        return no_memory();
    r->marks[r->nmarks++] = r->depth;
    return 0;
}

/* A frame's length is for readers that buffer. */
static int
skip(reader *r, int size)
{
    uint64_t unused;
    return number(r, size, &unused);
}

/* -- the machine ---------------------------------------------------------- */

static int
obey(reader *r, unsigned char opcode)
{
    switch (opcode) {
    case 0x80: return skip(r, 1); /* PROTO */
    case 0x95: return skip(r, 8); /* FRAME */
    case '(': return mark(r);
    case 'N': return push(r, Py_NewRef(Py_None));
    case 0x88: return push(r, Py_NewRef(Py_True));
    case 0x89: return push(r, Py_NewRef(Py_False));
    case 'K': return small_int(r, 1);
    case 'M': return small_int(r, 2);
    case 'J': return small_int(r, 4);
    case 0x8a: return long_int(r, 1);
    case 0x8b: return long_int(r, 4);
    case 'G': return real(r);
    case 0x8c: return text(r, 1);
    case 'X': return text(r, 4);
    case 0x8d: return text(r, 8);
    case 'C': return raw(r, 1);
    case 'B': return raw(r, 4);
    case 0x8e: return raw(r, 8);
    case ']': return push(r, PyList_New(0));
    case 'a': return unmarked(r, 1, append);
    case 'e': return marked(r, append);
    case '}': return push(r, PyDict_New());
    case 's': return unmarked(r, 2, set_items);
    case 'u': return marked(r, set_items);
    case ')': return push(r, PyTuple_New(0));
    case 0x85: return short_tuple(r, 1);
    case 0x86: return short_tuple(r, 2);
    case 0x87: return short_tuple(r, 3);
    case 't': return marked_tuple(r);
    case 'q': return put(r, 1);
    case 'r': return put(r, 4);
    case 0x94: return memoize(r, r->memos);
    case 'h': return get(r, 1);
    case 'j': return get(r, 4);
    default: return not_plain(r, opcode);
    }
}

static int
run(reader *r)
{
    for (uint32_t turn = 1; r->at < r->end; turn++) {
        unsigned char opcode = *r->at++;
        if (opcode == '.')
            return r->depth == 1 && r->nmarks == 0
                       ? 0
                       : wrong(r, "something is left over");
        if (obey(r, opcode) < 0)
            return -1;
        if (turn % PATIENCE == 0 && PyErr_CheckSignals() < 0)
            return -1;
    }
    return cut_off(r);
}

PyObject *
ia_plain_pickle_read(const void *bytes, size_t length)
{
    reader r = {.begin = bytes, .at = bytes};
    PyObject *result = NULL;
    r.end = r.begin + length;
    if (run(&r) == 0)
        result = r.stack[--r.depth];
    drop(&r, 0);
    while (r.memos > 0)
        Py_DECREF(r.memo[--r.memos]);
    free(r.stack);
    free(r.memo);
    free(r.marks);
    return result;
}
