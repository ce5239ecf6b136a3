/* Names that do not last, read from a function's instructions. */

#include "../base/compat.h"
#include "passing.h"

#include "../base/array.h"
#include "loops.h"

#include <stdlib.h>

static ia_ptrmap noted; /* code -> 1 */
static ia_ptrmap looped; /* code -> where a walk saw it last in a loop */

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
    ia_ptrmap_free(&looped);
}

/* The loop whose variables pass: it runs, or it did when a walk saw the code in
 * one, or it is the one that ended last.  What a walk has called by other names
 * while a loop ran goes by these when it is over. */
static int
find_loop(const ia_instructions *all, PyCodeObject *code, Py_ssize_t at,
          ia_loop *found)
{
    uint32_t then = ia_ptrmap_get(&looped, (uintptr_t)code);
    if (at >= 0 && ia_loops_outermost(all, at, found)) {
        /* Without memory the last one counts when it is over. */
        ia_ptrmap_set(&looped, (uintptr_t)code, (uint32_t)at);
        return 1;
    }
    return (then != IA_PTRMAP_NONE && ia_loops_outermost(all, then, found)) ||
           ia_loops_before(all, at, found);
}

/* 0, or -1 when memory is short. */
static int
read_code(ia_passing *p, PyCodeObject *code, Py_ssize_t at)
{
    /* What is no function's has its variables in a mapping, by name. */
    int globals = (code->co_flags & CO_OPTIMIZED) == 0;
    int count = globals ? (int)PyTuple_GET_SIZE(code->co_names)
                        : code->co_nlocalsplus;
    ia_instructions all;
    ia_loop l;
    *p = (ia_passing){code, at, code->co_nlocalsplus, count, NULL};
    p->marks = calloc((size_t)count + 1, 1);
    if (p->marks == NULL || ia_instructions_open(&all, code) < 0) {
        free(p->marks);
        return -1;
    }
    const ia_loop *again = find_loop(&all, code, at, &l) ? &l : NULL;
    int result = ia_loops_set(&all, again, globals, p->marks, count);
    ia_instructions_close(&all);
    if (result < 0)
        free(p->marks);
    return result;
}

const ia_passing *
ia_passing_of(ia_passing_codes *codes, PyCodeObject *code, Py_ssize_t at)
{
    uintptr_t key = (uintptr_t)code ^ ((uintptr_t)at + 2) << 3;
    uint32_t known = ia_ptrmap_get(&codes->known, key);
    if (known != IA_PTRMAP_NONE && codes->items[known].code == code &&
        codes->items[known].at == at)
        return &codes->items[known];
    if (IA_ROOM(codes->items, codes->capacity, codes->count + 1) < 0 ||
        read_code(&codes->items[codes->count], code, at) < 0)
        return NULL;
    /* Without memory it is read again when it is asked for again. */
    ia_ptrmap_set(&codes->known, key, codes->count);
    return &codes->items[codes->count++];
}

void
ia_passing_free(ia_passing_codes *codes)
{
    for (uint32_t i = 0; i < codes->count; i++)
        free(codes->items[i].marks);
    free(codes->items);
    ia_ptrmap_free(&codes->known);
    *codes = (ia_passing_codes){0};
}

int
ia_passing_slot(const ia_passing *p, int slot)
{
    return slot >= p->named || (slot < p->count && p->marks[slot]);
}

int
ia_passing_name(const ia_passing *p, PyObject *name)
{
    PyObject *names = p->code->co_names;
    for (int i = 0; i < p->count; i++)
        if (p->marks[i] && PyTuple_GET_ITEM(names, i) == name)
            return 1; /* names of variables are interned */
    return 0;
}
