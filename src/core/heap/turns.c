/* Calls that a loop makes. */

#include "../base/compat.h"
#include "turns.h"

#include "../base/array.h"
#include "../base/read.h"
#include "../ledger/frames.h"
#include "../ledger/ledger.h"
#include "../ledger/libraries.h"

#include <opcode.h>
#include <stdlib.h>

/* Calls that are remembered; deeper ones are taken to have begun later. */
#define MOST_CALLS 512

static struct {
    const ia_frame *frame;
    const PyCodeObject *code;
} before[MOST_CALLS]; /* compared only */
static int nbefore;

void
ia_turns_begin(void)
{
    PyInterpreterState *interp = PyThreadState_Get()->interp;
    PyThreadState *t = PyInterpreterState_ThreadHead(interp);
    nbefore = 0;
    for (; t != NULL; t = PyThreadState_Next(t)) {
        ia_frame *f = ia_has_frames(t) ? ia_frame_top(t) : NULL;
        for (; f != NULL && nbefore < MOST_CALLS; f = ia_frame_back(f)) {
            before[nbefore].frame = f;
            before[nbefore++].code = ia_frame_code(f);
        }
    }
}

static int
ran_before(ia_frame *f)
{
    for (int i = 0; i < nbefore; i++)
        if (before[i].frame == f && before[i].code == ia_frame_code(f))
            return 1;
    return 0;
}

static int
goes_back(int op)
{
    switch (op) {
    case JUMP_BACKWARD:
#ifdef POP_JUMP_BACKWARD_IF_TRUE
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
#endif
        return 1;
    default:
        return 0;
    }
}

static int
loops_around(const unsigned char *code, Py_ssize_t size, Py_ssize_t at)
{
    Py_ssize_t arg = 0;
    for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
        arg = arg << 8 | code[i + 1];
        if (code[i] == EXTENDED_ARG)
            continue;
        if (goes_back(code[i]) && i >= at && i + 2 - 2 * arg <= at)
            return 1;
        arg = 0;
    }
    return 0;
}

static int
is_in_loop(ia_frame *f)
{
    /* Bytes: no object that the collector knows, so none of its runs. */
    PyObject *bytes = PyCode_GetCode(ia_frame_code(f));
    if (bytes == NULL) {
        PyErr_Clear();
        return 0;
    }
    int found = loops_around((const unsigned char *)PyBytes_AS_STRING(bytes),
                             PyBytes_GET_SIZE(bytes), ia_frame_instr(f));
    Py_DECREF(bytes);
    return found;
}

static int
is_user(ia_frame *f)
{
    ia_ledger_lock();
    int user = !ia_library_has(ia_utf8(ia_frame_code(f)->co_filename));
    ia_ledger_unlock();
    return user;
}

/* A coroutine keeps its variables from call to call; what a library calls, it
 * calls again by rules of its own. */
static int
is_made_by_loop(const ia_ptrmap *turns, ia_frame *f)
{
    ia_frame *caller = ia_frame_back(f);
    if (caller == NULL || ia_frame_is_generator(f) || ran_before(f) ||
        !is_user(caller))
        return 0;
    return ia_ptrmap_get(turns, (uintptr_t)caller) != IA_PTRMAP_NONE ||
           is_in_loop(caller);
}

/* From the outermost call inwards: what a turn calls is part of it. */
static int
find_on_thread(PyThreadState *t, ia_ptrmap *turns)
{
    ia_frame **frames = NULL, *f = ia_has_frames(t) ? ia_frame_top(t) : NULL;
    uint32_t count = 0, capacity = 0;
    int result = 0;
    for (; f != NULL && result == 0; f = ia_frame_back(f)) {
        result = IA_ROOM(frames, capacity, (uint64_t)count + 1);
        if (result == 0)
            frames[count++] = f;
    }
    while (count-- > 0 && result == 0)
        if (is_made_by_loop(turns, frames[count]))
            result = ia_ptrmap_set(turns, (uintptr_t)frames[count], 1);
    free(frames);
    return result;
}

int
ia_turns_find(ia_ptrmap *turns)
{
    PyInterpreterState *interp = PyThreadState_Get()->interp;
    PyThreadState *t = PyInterpreterState_ThreadHead(interp);
    for (; t != NULL; t = PyThreadState_Next(t))
        if (find_on_thread(t, turns) < 0)
            return -1;
    return 0;
}

static int
count_arguments(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount +
           ((code->co_flags & CO_VARARGS) != 0) +
           ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* Is it in a variable that is no argument, and none of an outer function's? */
static int
is_own_variable(ia_frame *f, uintptr_t ref)
{
    const PyCodeObject *code = ia_frame_code(f);
    int own = 0;
    for (int i = 0; i < code->co_nlocals; i++) {
        if ((uintptr_t)ia_frame_slot(f, i) != ref)
            continue;
        if (i < count_arguments(code))
            return 0;
        own = 1;
    }
    return own;
}

int
ia_turns_own(const ia_walk *w, uint32_t entry)
{
    uint32_t root = ia_walk_root(w, entry), child = entry;
    if (root == entry || !w->roots->items[w->queue[root].root].turn)
        return 0;
    while (w->queue[child].parent != root)
        child = w->queue[child].parent;
    return is_own_variable((ia_frame *)IA_ADDRESS(w->queue[root].ref),
                           w->queue[child].ref);
}
