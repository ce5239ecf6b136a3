/* What a gradient tape of TensorFlow's has recorded.
 *
 * A tape is C++'s and shows the collector nothing: what its operations were
 * given and gave back are tuples and lists that C++ functions hold.  A table
 * of operations is found in the tape by its form, every part of which must
 * fit: where TensorFlow is made otherwise there is none, and nothing is said.
 * Memory is read by the kernel, which cannot fault.  What is handed on is
 * alive: an object that was freed has a count of 0, or the address of another
 * free one in its place.
 */
#include "../core/base/memory.h"
#include "hooks.h"

#include <string.h>

/* Bytes of a tape that are looked through for its table: 240 of them are
 * used. */
#define TAPE_SIZE 320
/* Operations that one tape may have: each takes some ten microseconds. */
#define MOST_OPERATIONS ((size_t)1 << 16)
/* What an object that is alive counts at most; addresses are above. */
#define MOST_REFERENCES ((Py_ssize_t)1 << 32)

/* std::unordered_map, as libstdc++ has it since GCC 5. */
typedef struct {
    uintptr_t buckets;
    size_t bucket_count;
    uintptr_t first;
    size_t count;
    float load; /* at most so many a bucket: 1 unless it is set */
    size_t next_resize;
    uintptr_t single_bucket;
} map;

/* std::vector */
typedef struct {
    uintptr_t begin, end, limit;
} vector;

/* std::function: what it calls, or where that is. */
typedef struct {
    uintptr_t functor[2], manager, invoker;
} function;

/* One of the table: tensorflow::eager::OpTapeEntry with its number. */
typedef struct {
    uintptr_t next;
    int64_t number;
    struct {
        uintptr_t at;
        size_t length;
        char inside[16]; /* where it is short */
    } name;
    vector outputs, inputs;
    uintptr_t backward; /* of a function */
    function deleter;
} operation;

/* Words that a functor may have: names, attributes, inputs, outputs. */
#define FUNCTOR_WORDS 8

/* What is handed on of an object is read as one. */
_Static_assert(sizeof(PyObject) == 2 * sizeof(uintptr_t), "another header");

static PyTypeObject *tape_type; /* owned, NULL until there is one */

typedef struct {
    ia_sink *sink;
    Py_ssize_t count;
    int stop;
} recorded;

int
ia_tape_init(PyObject *type)
{
    if (((PyTypeObject *)type)->tp_basicsize <
        (Py_ssize_t)(sizeof(PyObject) + sizeof(void *))) {
        PyErr_Format(PyExc_RuntimeError, "%s has no C++ object",
                     ((PyTypeObject *)type)->tp_name);
        return -1;
    }
    Py_XSETREF(tape_type, (PyTypeObject *)Py_NewRef(type));
    return 0;
}

int
ia_is_tape(PyTypeObject *type)
{
    return type == tape_type && type != NULL;
}

/* -- what an operation holds ----------------------------------------------- */

/* Lists of tensors, tensors, and the functions that a gradient is taken by. */
static int
may_hold(PyTypeObject *type)
{
    return type == &PyTuple_Type || type == &PyList_Type ||
           type == ia_tensorflow.type || type == &PyFunction_Type ||
           type == &PyMethod_Type;
}

static void
look_at(recorded *r, uintptr_t word)
{
    PyObject copy; /* of its first words */
    if (r->stop || word == 0 || word % sizeof word != 0 ||
        ia_memory_read(&copy, word, sizeof copy) != sizeof copy ||
        !may_hold(Py_TYPE(&copy)) || Py_REFCNT(&copy) <= 0 ||
        Py_REFCNT(&copy) >= MOST_REFERENCES)
        return;
    r->stop = r->sink->object(r->sink, (PyObject *)word, IA_EDGE_RECORDED,
                              NULL, r->count++);
}

/* A small functor lies in the function itself. */
static void
look_into(recorded *r, uintptr_t backward)
{
    function f;
    uintptr_t words[FUNCTOR_WORDS];
    if (ia_memory_read(&f, backward, sizeof f) != sizeof f)
        return;
    look_at(r, f.functor[0]);
    size_t n = ia_memory_read(words, f.functor[0], sizeof words);
    for (size_t i = 0; i < n / sizeof *words; i++)
        look_at(r, words[i]);
}

/* -- the table ------------------------------------------------------------- */

static int
is_vector(const vector *v)
{
    return v->begin <= v->end && v->end <= v->limit &&
           (v->end - v->begin) % sizeof(uintptr_t) == 0 &&
           (v->begin != 0) == (v->limit != 0);
}

static int
read_operation(operation *op, uintptr_t at)
{
    if (ia_memory_read(op, at, sizeof *op) != sizeof *op)
        return 0;
    int is_short = op->name.length < sizeof op->name.inside;
    uintptr_t inside = at + offsetof(operation, name.inside);
    return op->name.length > 0 && is_short == (op->name.at == inside) &&
           is_vector(&op->outputs) && is_vector(&op->inputs) &&
           op->backward != 0 && op->deleter.manager != 0 &&
           op->deleter.invoker != 0;
}

/* Does a table of operations begin there, all of whose entries are ones? */
static int
is_table(const map *m, uintptr_t at)
{
    operation op;
    uintptr_t next = m->first;
    int alone = m->buckets == at + offsetof(map, single_bucket);
    if (m->load != 1.0F || alone != (m->bucket_count == 1) ||
        m->count == 0 || m->count > MOST_OPERATIONS)
        return 0;
    for (size_t i = 0; i < m->count; i++, next = op.next)
        if (next == 0 || !read_operation(&op, next))
            return 0;
    return next == 0;
}

int
ia_tape_expand(PyObject *op, ia_sink *sink)
{
    recorded r = {.sink = sink};
    char tape[TAPE_SIZE];
    map m;
    operation one;
    uintptr_t begin = *(uintptr_t *)(op + 1);
    size_t n = ia_memory_read(tape, begin, sizeof tape), at = 0;
    for (; at + sizeof m <= n; at += sizeof(uintptr_t)) {
        memcpy(&m, tape + at, sizeof m);
        if (is_table(&m, begin + at))
            break;
    }
    if (at + sizeof m > n)
        return 0;
    for (uintptr_t next = m.first; next != 0 && !r.stop; next = one.next) {
        if (!read_operation(&one, next))
            break;
        look_into(&r, one.backward);
    }
    return r.stop;
}
