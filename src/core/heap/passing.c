/* Names that do not last, read from a function's instructions. */

#include "../base/compat.h"
#include "passing.h"

#include "../base/ptrmap.h"
#include "instructions.h"

#include <opcode.h>
#include <stdlib.h>

static ia_ptrmap noted; /* code -> 1 */

void
ia_passing_note(const PyCodeObject *code)
{
    /* Without memory a path has a name that passes. */
    ia_ptrmap_set(&noted, (uintptr_t)code, 1);
}

int
ia_passing_is_noted(const PyCodeObject *code)
{
    return ia_ptrmap_get(&noted, (uintptr_t)code) != IA_PTRMAP_NONE;
}

void
ia_passing_forget_all(void)
{
    ia_ptrmap_free(&noted);
}

void
ia_passing_free(ia_passing *p)
{
    free(p->slots);
    free(p->names);
    *p = (ia_passing){0};
}

static void
mark_slot(ia_passing *p, int slot)
{
    if (slot < p->named)
        p->slots[slot] = 1;
}

static void
mark_name(ia_passing *p, int name)
{
    if (name < PyTuple_GET_SIZE(p->code->co_names))
        p->names[name] = 1;
}

/* One instruction; *targets counts values of a loop that are still to be
 * stored, and becomes 0 with what stores none. */
static void
read_instruction(ia_passing *p, int op, int arg, int *targets)
{
    if (op == FOR_ITER) {
        *targets = 1;
        return;
    }
    if (*targets == 0)
        return;
    switch (op) {
    case UNPACK_SEQUENCE:
        *targets += arg - 1;
        return;
    case UNPACK_EX: /* so many before the starred one, so many after it */
        *targets += (arg & 0xFF) + (arg >> 8);
        return;
    case STORE_FAST:
    case STORE_DEREF:
        mark_slot(p, arg);
        break;
#ifdef STORE_FAST_STORE_FAST
    case STORE_FAST_STORE_FAST:
        mark_slot(p, arg >> 4);
        if (*targets > 1)
            mark_slot(p, arg & 15);
        *targets -= *targets > 1;
        break;
#endif
#ifdef STORE_FAST_LOAD_FAST
    case STORE_FAST_LOAD_FAST:
        mark_slot(p, arg >> 4);
        *targets = 1; /* the load ends the row of stores */
        break;
#endif
    case STORE_NAME:
    case STORE_GLOBAL:
        mark_name(p, arg);
        break;
    default:
        *targets = 1;
    }
    --*targets;
}

int
ia_passing_read(ia_passing *p, PyCodeObject *code)
{
    if (p->code == code)
        return 0;
    ia_passing_free(p);
    Py_ssize_t names = PyTuple_GET_SIZE(code->co_names);
    p->named = code->co_nlocalsplus;
    p->slots = calloc((size_t)p->named + 1, 1);
    p->names = calloc((size_t)names + 1, 1);
    ia_instructions all;
    if (p->slots == NULL || p->names == NULL ||
        ia_instructions_open(&all, code) < 0) {
        ia_passing_free(p);
        return -1;
    }
    p->code = code;
    ia_instruction i = {0};
    int targets = 0;
    while (ia_instructions_at(&all, i.next, &i))
        read_instruction(p, i.op, i.arg, &targets);
    ia_instructions_close(&all);
    return 0;
}

int
ia_passing_slot(const ia_passing *p, int slot)
{
    return p->code != NULL && (slot >= p->named || p->slots[slot]);
}

int
ia_passing_name(const ia_passing *p, PyObject *name)
{
    if (p->code == NULL)
        return 0;
    PyObject *names = p->code->co_names;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (p->names[i] && PyTuple_GET_ITEM(names, i) == name)
            return 1; /* names of variables are interned */
    return 0;
}
