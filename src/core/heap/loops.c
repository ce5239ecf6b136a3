/* Loops, read from a function's instructions. */

#include "../base/compat.h"
#include "loops.h"

#include <opcode.h>
#include <stdlib.h>
#include <string.h>

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

/* The next loop around `at`, by where it jumps back; 0 where there is none.
 * *from is where the search goes on. */
static int
next_loop(const ia_instructions *all, Py_ssize_t at, Py_ssize_t *from,
          ia_loop *found)
{
    ia_instruction i;
    for (; ia_instructions_at(all, *from, &i); *from = i.next) {
        if (is_handler(i.op))
            return 0;
        *found = (ia_loop){i.next - 2 * (Py_ssize_t)i.arg, i.at};
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
    ia_loop found;
    Py_ssize_t from = 0;
    if (ia_instructions_open(&all, ia_frame_code(f)) < 0)
        return 0;
    int is_in_loop = next_loop(&all, ia_frame_instr(f), &from, &found);
    ia_instructions_close(&all);
    return is_in_loop;
}

/* CPython compiles no more blocks around one. */
#define MOST_AROUND 20

int
ia_loops_through(ia_frame *f)
{
    ia_instructions all;
    ia_instruction i;
    ia_loop found;
    Py_ssize_t begins[MOST_AROUND], from = 0;
    int n = 0;
    if (ia_instructions_open(&all, ia_frame_code(f)) < 0)
        return 0;
    while (n < MOST_AROUND &&
           next_loop(&all, ia_frame_instr(f), &from, &found)) {
        int known = 0;
        for (int k = 0; k < n; k++)
            known |= begins[k] == found.begin;
        if (!known && ia_instructions_at(&all, found.begin, &i) &&
            i.op == FOR_ITER)
            begins[n++] = found.begin;
    }
    ia_instructions_close(&all);
    return n;
}

/* -- variables that are set anew ------------------------------------------- */

/* Variables of one code that are told apart; what is beyond is no matter of a
 * loop's. */
#define MOST_VARIABLES 256

/* What is known at an instruction of a turn: which variables are made of one's
 * value before, and the same of the statement so far. */
typedef struct {
    int is_global; /* names of co_names, else slots */
    uint8_t made_of[MOST_VARIABLES];
    int reads;   /* the statement: one of these */
    int targets; /* what is unpacked, and not stored yet */
    int stored;  /* it has stored: the next one begins with what stores none */
    int after_loop; /* what is popped is the iterator, perhaps in a value */
} flow;

/* Variables that an instruction loads or stores: how many, at most two. */
static int
loaded(const flow *f, const ia_instruction *i, int at[2])
{
    at[0] = i->arg;
    switch (i->op) {
    case LOAD_FAST:
    case LOAD_DEREF:
#ifdef LOAD_FAST_CHECK
    case LOAD_FAST_CHECK:
#endif
#ifdef LOAD_FAST_BORROW
    case LOAD_FAST_BORROW:
#endif
        return !f->is_global;
    case LOAD_NAME:
        return f->is_global;
#ifdef LOAD_FAST_LOAD_FAST
    case LOAD_FAST_LOAD_FAST:
#ifdef LOAD_FAST_BORROW_LOAD_FAST_BORROW
    case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
#endif
        at[0] = i->arg >> 4;
        at[1] = i->arg & 15;
        return f->is_global ? 0 : 2;
    case STORE_FAST_LOAD_FAST:
        at[0] = i->arg & 15;
        return !f->is_global;
#endif
    default:
        return 0;
    }
}

static int
stored(const flow *f, const ia_instruction *i, int at[2])
{
    at[0] = i->arg;
    switch (i->op) {
    case STORE_FAST:
    case STORE_DEREF:
        return !f->is_global;
    case STORE_NAME:
        return f->is_global;
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_STORE_FAST:
        at[0] = i->arg >> 4;
        at[1] = i->arg & 15;
        return f->is_global ? 0 : 2;
    case STORE_FAST_LOAD_FAST:
        at[0] = i->arg >> 4;
        return !f->is_global;
#endif
    default:
        return 0;
    }
}

/* What a store takes off the stack, be it a variable's or another; 0 where the
 * instruction is none. */
static int
targets_of(int op)
{
    switch (op) {
    case STORE_FAST:
    case STORE_DEREF:
    case STORE_NAME:
    case STORE_GLOBAL:
    case STORE_ATTR:
    case STORE_SUBSCR:
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_LOAD_FAST:
#endif
        return 1;
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_STORE_FAST:
        return 2;
#endif
    default:
        return 0;
    }
}

static int
unpacked(const ia_instruction *i)
{
    if (i->op == UNPACK_SEQUENCE)
        return i->arg;
    /* So many before the starred one, so many after it. */
    return i->op == UNPACK_EX ? (i->arg & 0xFF) + (i->arg >> 8) + 1 : 0;
}

/* Before an instruction: does a statement begin? */
static void
begin_statement(flow *f, const ia_instruction *i)
{
    if (f->stored && f->targets == 0 && targets_of(i->op) == 0)
        f->reads = f->stored = 0;
}

/* What it stores is made of what the statement has read; `surely`: no jump
 * leads past it. */
static void
follow(flow *f, const ia_instruction *i, int surely)
{
    int at[2] = {0}, count = stored(f, i, at), taken = targets_of(i->op);
    for (int n = 0; n < count; n++)
        if (at[n] < MOST_VARIABLES && (f->reads || surely))
            f->made_of[at[n]] = (uint8_t)f->reads;
    f->targets -= f->targets < taken ? f->targets : taken;
    if (unpacked(i))
        f->targets += unpacked(i) - (f->targets > 0);
    f->stored |= taken > 0 || (i->op == POP_TOP && !f->after_loop);
#ifdef STORE_FAST_STORE_FAST
    if (i->op == STORE_FAST_LOAD_FAST && f->targets == 0)
        f->reads = f->stored = 0; /* the load is the next one's */
#endif
#ifdef END_FOR
    f->after_loop = i->op == END_FOR;
#endif
    count = loaded(f, i, at);
    for (int n = 0; n < count; n++)
        f->reads |= at[n] < MOST_VARIABLES && f->made_of[at[n]];
}

static int
is_stored(const flow *f, const ia_instruction *i, int variable)
{
    int at[2] = {0}, count = stored(f, i, at);
    return (count > 0 && at[0] == variable) ||
           (count > 1 && at[1] == variable);
}

/* Does each turn of the loop set it, to what is not made of the value before?
 * No jump leads past the store, nor to it with another value. */
static int
sets_anew(const ia_instructions *all, const ia_loop *l, int variable,
          int is_global)
{
    flow f = {.is_global = is_global};
    Py_ssize_t past = l->begin; /* where the furthest jump inside it leads */
    ia_instruction i = {.next = l->begin};
    f.made_of[variable] = 1;
    while (ia_instructions_at(all, i.next, &i) && i.at < l->end) {
        begin_statement(&f, &i);
        if (is_stored(&f, &i, variable) && !f.reads && past < i.at)
            return 1;
        follow(&f, &i, past < i.at);
        Py_ssize_t to = i.next + 2 * (Py_ssize_t)i.arg;
        if (goes_on(i.op) && to <= l->end && to > past)
            past = to;
    }
    return 0;
}

int
ia_loops_outermost(const ia_instructions *all, Py_ssize_t at, ia_loop *out)
{
    ia_loop found;
    Py_ssize_t from = 0;
    int is_in_loop = 0;
    while (next_loop(all, at, &from, &found))
        if (!is_in_loop++ || found.begin < out->begin ||
            (found.begin == out->begin && found.end > out->end))
            *out = found;
    return is_in_loop > 0;
}

int
ia_loops_before(const ia_instructions *all, Py_ssize_t at, ia_loop *out)
{
    ia_instruction i = {0};
    int found = 0;
    while (ia_instructions_at(all, i.next, &i) && !is_handler(i.op) &&
           (at < 0 || i.at < at))
        if (goes_back(i.op)) {
            *out = (ia_loop){i.next - 2 * (Py_ssize_t)i.arg, i.at};
            found = 1;
        }
    return found;
}

/* `read`: for each variable whether the statement so far has. */
static void
mark_set(const ia_instructions *all, const ia_loop *l, int globals,
         unsigned char *marks, unsigned char *read, int count)
{
    flow f = {.is_global = globals};
    ia_instruction i = {0};
    int at[2] = {0}, targets = 0; /* of a for loop, to be stored yet */
    while (ia_instructions_at(all, i.next, &i)) {
        int had_stored = f.stored, of_loop = targets > 0;
        int again = l != NULL && l->begin <= i.at && i.at <= l->end;
        begin_statement(&f, &i);
        if (had_stored && !f.stored)
            memset(read, 0, (size_t)count);
        int stores = stored(&f, &i, at);
        for (int n = 0; n < stores; n++)
            if (at[n] < count &&
                (n < targets || (again && !read[at[n]])))
                marks[at[n]] = 1;
        /* What a comprehension goes through ends no statement. */
        if (i.op == FOR_ITER)
            targets = 1;
        else if (of_loop && unpacked(&i))
            targets += unpacked(&i) - 1;
        else
            targets -= targets_of(i.op) && targets_of(i.op) < targets
                           ? targets_of(i.op)
                           : targets;
        if (!of_loop)
            follow(&f, &i, 0);
        if (stores > 0 && !of_loop && !f.stored)
            memset(read, 0, (size_t)count); /* the load is the next one's */
        int loads = loaded(&f, &i, at);
        for (int n = 0; n < loads; n++)
            if (at[n] < count)
                read[at[n]] = 1;
    }
}

int
ia_loops_set(const ia_instructions *all, const ia_loop *l, int globals,
             unsigned char *marks, int count)
{
    unsigned char *read = calloc((size_t)count + 1, 1);
    if (read == NULL)
        return -1;
    mark_set(all, l, globals, marks, read, count);
    free(read);
    return 0;
}

/* A slot, or with slot -1 the place of a name, which is interned; -1 where
 * there is none that is told apart. */
static int
variable_of(const PyCodeObject *code, int slot, const PyObject *name)
{
    Py_ssize_t i = slot, count = PyTuple_GET_SIZE(code->co_names);
    for (i = slot; slot < 0 && ++i < count;)
        if (PyTuple_GET_ITEM(code->co_names, i) == name)
            break;
    return i < MOST_VARIABLES && (slot >= 0 || i < count) ? (int)i : -1;
}

int
ia_loops_renew(ia_frame *f, int slot, PyObject *name)
{
    PyCodeObject *code = ia_frame_code(f);
    int variable = variable_of(code, slot, name);
    ia_instructions all;
    ia_loop found;
    Py_ssize_t from = 0;
    int renews = 0;
    if (variable < 0 || ia_instructions_open(&all, code) < 0)
        return 0;
    while (!renews && next_loop(&all, ia_frame_instr(f), &from, &found))
        renews = sets_anew(&all, &found, variable, slot < 0);
    ia_instructions_close(&all);
    return renews;
}
