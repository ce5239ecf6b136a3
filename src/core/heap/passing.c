/* Names that do not last, read from a function's instructions. */

#include "../base/compat.h"
#include "passing.h"

#include "../base/ptrmap.h"

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
    if (*targets == 0 || op == CACHE)
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

static void
read_instructions(ia_passing *p, const unsigned char *at, Py_ssize_t size)
{
    int arg = 0, targets = 0;
    for (Py_ssize_t i = 0; i + 1 < size; i += 2) {
        arg = arg << 8 | at[i + 1];
        if (at[i] == EXTENDED_ARG)
            continue;
        read_instruction(p, at[i], arg, &targets);
        arg = 0;
    }
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
    /* Bytes: no object that the collector knows, so none of its runs. */
    PyObject *bytes = PyCode_GetCode(code);
    if (p->slots == NULL || p->names == NULL || bytes == NULL) {
        PyErr_Clear();
        Py_XDECREF(bytes);
        ia_passing_free(p);
        return -1;
    }
    p->code = code;
    read_instructions(p, (const unsigned char *)PyBytes_AS_STRING(bytes),
                      PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
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
