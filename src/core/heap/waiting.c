/* Calls that wait: coroutines that a library runs, between its turns.
 *
 * One that runs is on a thread's chain, and its variables start paths.  One
 * that waits is a call no less: what its variables keep goes by their names,
 * and not by how the library comes back to it.
 */

#include "../base/compat.h"
#include "own.h"
#include "waiting.h"

#include <string.h>

/* From what is awaited to a task: gather()'s future, its variables, a list;
 * a group, its variables, a set. */
#define MOST_DEEP 4
/* Objects on these ways, all together. */
#define MOST_LOOKED_AT 1024

typedef struct {
    ia_frame **calls;
    int count, looked_at, deep;
} waiting;

static int
add_coroutine(PyObject *op, void *arg)
{
    waiting *w = arg;
    int running = 0;
    ia_frame *f = op != NULL && PyCoro_CheckExact(op)
                      ? ia_generator_frame(op, &running)
                      : NULL;
    if (f == NULL || running || w->count == IA_MOST_WAITING)
        return 0;
    for (int i = 0; i < w->count; i++)
        if (w->calls[i] == f)
            return 0;
    w->calls[w->count++] = f;
    return 0;
}

/* Has it that class, or one that derives from it? */
static int
is_a(PyObject *op, const char *name)
{
    PyTypeObject *type = Py_TYPE(op);
    while (type != NULL && strcmp(type->tp_name, name) != 0)
        type = type->tp_base;
    return type != NULL;
}

/* A task shows its coroutine. */
static void
add_value(waiting *w, PyObject *op)
{
    if (op != NULL && ia_can_traverse(op) && is_a(op, "_asyncio.Task"))
        Py_TYPE(op)->tp_traverse(op, add_coroutine, w);
    else
        add_coroutine(op, w);
}

/* The loop has all that waits for anything, of whoever. */
static int
is_loop(PyObject *op)
{
    PyObject *line = Py_TYPE(op)->tp_mro;
    Py_ssize_t n = line != NULL && PyTuple_CheckExact(line)
                       ? PyTuple_GET_SIZE(line)
                       : 0;
    while (n > 0 &&
           strcmp(((PyTypeObject *)PyTuple_GET_ITEM(line, n - 1))->tp_name,
                  "AbstractEventLoop") != 0)
        n--;
    return n > 0;
}

/* May it be how a library keeps the tasks that it waits for?  A queue's items
 * are none of these, nor is whoever waits for them. */
static int
may_keep_tasks(PyObject *op)
{
    return PyList_CheckExact(op) || PyAnySet_CheckExact(op) ||
           PyDict_CheckExact(op) || PyTuple_CheckExact(op) ||
           PyCell_Check(op) || is_a(op, "_asyncio.FutureIter") ||
           is_a(op, "_asyncio.Future") ||
           ((Py_TYPE(op)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
            !PyType_Check(op) && !is_a(op, "collections.deque") &&
            !is_loop(op));
}

static int
add_those_in(PyObject *op, void *arg)
{
    waiting *w = arg;
    add_value(w, op);
    if (op == NULL || w->deep == MOST_DEEP || !ia_can_traverse(op) ||
        PyCoro_CheckExact(op) || is_a(op, "_asyncio.Task") ||
        !may_keep_tasks(op) || w->looked_at++ >= MOST_LOOKED_AT)
        return 0;
    w->deep++;
    Py_TYPE(op)->tp_traverse(op, add_those_in, w);
    w->deep--;
    return 0;
}

/* What a call awaits lies on top of its stack; a library's has in any of its
 * variables what it was given to run. */
static void
add_awaited(waiting *w, ia_frame *f)
{
    int slots = ia_frame_slots(f), i = 0;
    w->looked_at = 0;
    if (!ia_frame_is_library(f)) {
        i = slots - 1;
        if (i < ia_frame_code(f)->co_nlocalsplus)
            return;
    }
    for (; i < slots; i++)
        add_those_in(ia_frame_slot(f, i), w);
}

int
ia_waiting_calls(ia_frame *f, ia_frame *calls[IA_MOST_WAITING])
{
    waiting w = {.calls = calls};
    if (!ia_frame_is_library(f))
        return 0;
    for (int i = 0, slots = ia_frame_slots(f); i < slots; i++)
        add_value(&w, ia_frame_slot(f, i));
    for (int i = 0; i < w.count; i++)
        add_awaited(&w, w.calls[i]);
    return w.count;
}
