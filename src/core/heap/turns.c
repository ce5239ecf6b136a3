/* Calls that a loop makes. */

#include "../base/compat.h"
#include "turns.h"

#include "../base/array.h"
#include "../ledger/frames.h"
#include "loops.h"
#include "own.h"

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
    ia_all_frames all = {0};
    ia_frame *f;
    nbefore = 0;
    while (nbefore < MOST_CALLS && (f = ia_frame_next(&all)) != NULL) {
        before[nbefore].frame = f;
        before[nbefore++].code = ia_frame_code(f);
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

/* A coroutine keeps its variables from call to call.  What a library calls is
 * part of the turn in which that was called; else it calls that again by rules
 * of its own. */
static int
is_made_by_loop(const ia_ptrmap *turns, ia_frame *f)
{
    ia_frame *caller = ia_frame_back(f);
    if (caller == NULL || ia_frame_is_generator(f) || ran_before(f))
        return 0;
    return ia_ptrmap_get(turns, (uintptr_t)caller) != IA_PTRMAP_NONE ||
           (!ia_frame_is_library(caller) && ia_loops_around(caller));
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

static int
find_ended(ia_ptrmap *turns)
{
    ia_frame *f;
    for (uint32_t i = 0; (f = ia_frame_ended(i)) != NULL; i++)
        if (is_made_by_loop(turns, f) &&
            ia_ptrmap_set(turns, (uintptr_t)f, 1) < 0)
            return -1;
    return 0;
}

int
ia_turns_find(ia_ptrmap *turns)
{
    PyInterpreterState *interp = PyThreadState_Get()->interp;
    PyThreadState *t = PyInterpreterState_ThreadHead(interp);
    for (; t != NULL; t = PyThreadState_Next(t))
        if (find_on_thread(t, turns) < 0)
            return -1;
    return find_ended(turns);
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

/* Does the way from one entry up to another lead through an argument of a
 * suspended call, as a task's is that waits?  That was there before the call,
 * whoever keeps the call, but for what it alone has. */
static int
leads_through_argument(const ia_walk *w, uint32_t entry, uint32_t up_to)
{
    for (; entry != up_to; entry = w->queue[entry].parent) {
        uintptr_t above = w->queue[w->queue[entry].parent].ref;
        PyObject *op = (PyObject *)IA_ADDRESS(above);
        int running;
        if (IA_TAG(above) != IA_TAG_OBJECT || !ia_is_generator(op))
            continue;
        ia_frame *f = ia_generator_frame(op, &running);
        if (f == NULL)
            continue;
        for (int i = count_arguments(ia_frame_code(f)); i-- > 0;) {
            PyObject *given = ia_frame_slot(f, i);
            if ((uintptr_t)given == w->queue[entry].ref && Py_REFCNT(given) > 1)
                return 1;
        }
    }
    return 0;
}

/* -- variables that a running loop sets anew --------------------------------- */

static Py_ssize_t
count_in_frame(ia_frame *f, const PyObject *op)
{
    PyObject *const *words;
    Py_ssize_t found = 0;
    for (int i = ia_frame_slots(f); i-- > 0;)
        found += ia_frame_slot(f, i) == op;
    for (int i = ia_frame_hidden_stack(f, &words); i-- > 0;)
        found += words[i] == op;
    return found;
}

/* Do variables of running calls hold it, and nothing else but `others`? */
static int
is_held_by_calls(const PyObject *op, Py_ssize_t others)
{
    ia_all_frames all = {0};
    ia_frame *f;
    while ((f = ia_frame_next(&all)) != NULL)
        others += count_in_frame(f, op);
    return Py_REFCNT(op) <= others;
}

/* Does a loop set each variable of the call that holds it anew? */
static int
is_renewed_local(ia_frame *f, const PyObject *op)
{
    int renewed = 0;
    for (int i = 0; i < ia_frame_code(f)->co_nlocals; i++) {
        if (ia_frame_slot(f, i) != op)
            continue;
        if (!ia_loops_renew(f, i, NULL))
            return 0;
        renewed = 1;
    }
    return renewed && is_held_by_calls(op, 0);
}

/* The frame in which a module's own code runs, or NULL. */
static ia_frame *
find_running_module(const PyObject *dict)
{
    ia_all_frames all = {0};
    ia_frame *f;
    while ((f = ia_frame_next(&all)) != NULL && ia_frame_locals(f) != dict)
        ;
    return f;
}

static int
is_renewed_global(PyObject *dict, const PyObject *op)
{
    ia_frame *f = find_running_module(dict);
    PyObject *name, *value;
    Py_ssize_t pos = 0, names = 0;
    if (f == NULL)
        return 0;
    while (PyDict_Next(dict, &pos, &name, &value)) {
        if (value != op)
            continue;
        if (!ia_loops_renew(f, -1, name))
            return 0;
        names++;
    }
    return names > 0 && is_held_by_calls(op, names);
}

int
ia_turns_own(const ia_walk *w, uint32_t entry)
{
    uint32_t at = ia_walk_root(w, entry), child = entry;
    if (at == entry)
        return 0;
    while (w->queue[child].parent != at)
        child = w->queue[child].parent;
    if (leads_through_argument(w, entry, child))
        return 0;
    const ia_root *root = &w->roots->items[w->queue[at].root];
    uintptr_t ref = w->queue[child].ref;
    PyObject *op = (PyObject *)IA_ADDRESS(ref);
    if (root->kind == IA_ROOT_MODULE)
        return is_renewed_global((PyObject *)IA_ADDRESS(root->ref), op);
    if (root->kind != IA_ROOT_FRAME)
        return 0;
    ia_frame *f = (ia_frame *)IA_ADDRESS(root->ref);
    return (root->turn && is_own_variable(f, ref)) || is_renewed_local(f, op);
}
