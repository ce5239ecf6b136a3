/* Names that do not last, read from a function's instructions. */

#include "../base/compat.h"
#include "passing.h"

#include "../base/ptrmap.h"

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

int
ia_passing_read(ia_passing *p, PyCodeObject *code)
{
    ia_instructions all;
    if (p->code == code)
        return 0;
    *p = (ia_passing){.named = code->co_nlocalsplus};
    if (ia_instructions_open(&all, code) < 0)
        return -1;
    int result = ia_loops_set(&all, 0, p->slots);
    if (result == 0)
        result = ia_loops_set(&all, 1, p->names);
    ia_instructions_close(&all);
    if (result == 0)
        p->code = code;
    return result;
}

int
ia_passing_slot(const ia_passing *p, int slot)
{
    return p->code != NULL &&
           (slot >= p->named ||
            (slot < IA_MOST_VARIABLES && p->slots[slot]));
}

int
ia_passing_name(const ia_passing *p, PyObject *name)
{
    if (p->code == NULL)
        return 0;
    PyObject *names = p->code->co_names;
    for (Py_ssize_t i = 0;
         i < PyTuple_GET_SIZE(names) && i < IA_MOST_VARIABLES; i++)
        if (p->names[i] && PyTuple_GET_ITEM(names, i) == name)
            return 1; /* names of variables are interned */
    return 0;
}
