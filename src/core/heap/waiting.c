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

typedef struct {
    ia_frame **calls;
    int count;
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

/* A task shows its coroutine. */
static void
add_value(waiting *w, PyObject *op)
{
    if (op != NULL && strcmp(Py_TYPE(op)->tp_name, "_asyncio.Task") == 0 &&
        ia_can_traverse(op))
        Py_TYPE(op)->tp_traverse(op, add_coroutine, w);
    else
        add_coroutine(op, w);
}

/* What a library's call has is what it was given to run; of the program's own,
 * what lies on top of its stack is what it awaits. */
static void
add_what_it_runs(waiting *w, ia_frame *f)
{
    int slots = ia_frame_slots(f);
    int locals = ia_frame_code(f)->co_nlocalsplus;
    if (!ia_frame_is_library(f)) {
        if (slots > locals)
            add_value(w, ia_frame_slot(f, slots - 1));
        return;
    }
    for (int i = 0; i < slots; i++)
        add_value(w, ia_frame_slot(f, i));
}

int
ia_waiting_calls(ia_frame *f, ia_frame *calls[IA_MOST_WAITING])
{
    waiting w = {calls, 0};
    if (!ia_frame_is_library(f))
        return 0;
    add_what_it_runs(&w, f);
    for (int i = 0; i < w.count; i++)
        add_what_it_runs(&w, w.calls[i]);
    return w.count;
}
