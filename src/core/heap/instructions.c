/* A function's instructions. */

#include "../base/compat.h"
#include "instructions.h"

#include <opcode.h>

int
ia_instructions_open(ia_instructions *all, PyCodeObject *code)
{
    *all = (ia_instructions){.bytes = PyCode_GetCode(code)};
    if (all->bytes == NULL) {
        PyErr_Clear();
        return -1;
    }
    all->code = (const unsigned char *)PyBytes_AS_STRING(all->bytes);
    all->size = PyBytes_GET_SIZE(all->bytes);
    return 0;
}

void
ia_instructions_close(ia_instructions *all)
{
    Py_CLEAR(all->bytes);
}

int
ia_instructions_at(const ia_instructions *all, Py_ssize_t from,
                   ia_instruction *found)
{
    int arg = 0;
    for (Py_ssize_t i = from; i + 1 < all->size; i += 2) {
        arg = arg << 8 | all->code[i + 1];
        if (all->code[i] == EXTENDED_ARG)
            continue;
        Py_ssize_t next = i + 2;
        while (next + 1 < all->size && all->code[next] == CACHE)
            next += 2;
        *found = (ia_instruction){i, next, all->code[i], arg};
        return 1;
    }
    return 0;
}
