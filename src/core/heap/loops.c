/* Loops, read from a function's instructions. */

#include "../base/compat.h"
#include "loops.h"

#include "instructions.h"

#include <opcode.h>

/* -- jumps ----------------------------------------------------------------- */

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
goes_on(int op)
{
    switch (op) {
    case JUMP_FORWARD:
    case FOR_ITER:
    case SEND:
#ifdef POP_JUMP_FORWARD_IF_TRUE
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
#else
    case POP_JUMP_IF_TRUE:
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
#endif
        return 1;
    default:
        return 0;
    }
}

/* From 3.12 on handlers lie behind all else, and jump back to where they
 * belong: that is no loop. */
static int
is_handler(int op)
{
#if PY_VERSION_HEX >= 0x030C0000
    return op == PUSH_EXC_INFO;
#else
    (void)op;
    return 0;
#endif
}

typedef struct {
    Py_ssize_t begin, end; /* of its first instruction, and of the jump back */
} loop;

/* The next loop around `at`, by where it jumps back; 0 where there is none.
 * *from is where the search goes on. */
static int
next_loop(const ia_instructions *all, Py_ssize_t at, Py_ssize_t *from,
          loop *found)
{
    ia_instruction i;
    for (; ia_instructions_at(all, *from, &i); *from = i.next) {
        if (is_handler(i.op))
            return 0;
        *found = (loop){i.next - 2 * (Py_ssize_t)i.arg, i.at};
        if (goes_back(i.op) && found->begin <= at && at <= found->end) {
            *from = i.next;
            return 1;
        }
    }
    return 0;
}

int
ia_loops_around(ia_frame *f)
{
    ia_instructions all;
    loop found;
    Py_ssize_t from = 0;
    if (ia_instructions_open(&all, ia_frame_code(f)) < 0)
        return 0;
    int is_in_loop = next_loop(&all, ia_frame_instr(f), &from, &found);
    ia_instructions_close(&all);
    return is_in_loop;
}

/* -- variables that are set anew ------------------------------------------- */

typedef struct {
    int slot;        /* or -1 */
    PyObject *name;  /* borrowed; for slot -1 */
    PyObject *names; /* co_names, borrowed */
} variable;

static int
is_of(const variable *v, const ia_instruction *i)
{
    if (v->slot >= 0)
        return i->arg == v->slot;
    return i->arg < PyTuple_GET_SIZE(v->names) &&
           PyTuple_GET_ITEM(v->names, i->arg) == v->name; /* interned */
}

static int
stores(const variable *v, const ia_instruction *i)
{
    switch (i->op) {
    case STORE_FAST:
    case STORE_DEREF:
        return v->slot >= 0 && is_of(v, i);
    case STORE_NAME:
        return v->slot < 0 && is_of(v, i);
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_STORE_FAST:
    case STORE_FAST_LOAD_FAST:
        return i->arg >> 4 == v->slot;
#endif
    default:
        return 0;
    }
}

static int
reads(const variable *v, const ia_instruction *i)
{
    switch (i->op) {
    case LOAD_FAST:
    case LOAD_DEREF:
#ifdef LOAD_FAST_CHECK
    case LOAD_FAST_CHECK:
#endif
#ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW:
#endif
        return v->slot >= 0 && is_of(v, i);
    case LOAD_NAME:
        return v->slot < 0 && is_of(v, i);
#ifdef LOAD_FAST_LOAD_FAST
    case LOAD_FAST_LOAD_FAST:
#ifdef LOAD_FAST_BORROW_LOAD_FAST_BORROW
    case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
#endif
        return i->arg >> 4 == v->slot || (i->arg & 15) == v->slot;
#endif
    default:
        return 0;
    }
}

/* Does it end what may be read for the value of the next store? */
static int
ends_statement(int op)
{
    switch (op) {
    case STORE_FAST:
    case STORE_DEREF:
    case STORE_NAME:
    case STORE_GLOBAL:
    case STORE_ATTR:
    case STORE_SUBSCR:
    case POP_TOP:
    case FOR_ITER:
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_STORE_FAST:
    case STORE_FAST_LOAD_FAST:
#endif
        return 1;
    default:
        return 0;
    }
}

/* Does each turn of the loop set it, to what is not made of the value before?
 * No jump leads past the store, nor to it with another value. */
static int
sets_anew(const ia_instructions *all, const loop *l, const variable *v)
{
    Py_ssize_t past = l->begin; /* where the furthest jump inside it leads */
    ia_instruction i = {.next = l->begin};
    int is_read = 0;
    while (ia_instructions_at(all, i.next, &i) && i.at < l->end) {
        if (stores(v, &i) && !is_read && past < i.at)
            return 1;
        is_read = ends_statement(i.op) ? 0 : is_read || reads(v, &i);
        Py_ssize_t to = i.next + 2 * (Py_ssize_t)i.arg;
        if (goes_on(i.op) && to <= l->end && to > past)
            past = to;
    }
    return 0;
}

int
ia_loops_renew(ia_frame *f, int slot, PyObject *name)
{
    PyCodeObject *code = ia_frame_code(f);
    variable v = {slot, name, code->co_names};
    ia_instructions all;
    loop found;
    Py_ssize_t from = 0;
    int renews = 0;
    if (ia_instructions_open(&all, code) < 0)
        return 0;
    while (!renews && next_loop(&all, ia_frame_instr(f), &from, &found))
        renews = sets_anew(&all, &found, &v);
    ia_instructions_close(&all);
    return renews;
}
