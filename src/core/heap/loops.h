/* What a loop does with the variables of the code that it is in.
 *
 *     for epoch in range(9):
 *         losses = []
 *         for batch in data: ...
 *
 * What `losses` gathers is let go with the epoch, if nothing else leads to it.
 */
#ifndef IA_LOOPS_H
#define IA_LOOPS_H

#include "../ledger/frames.h"
#include "instructions.h"

typedef struct {
    Py_ssize_t begin, end; /* of its first instruction, and of the jump back */
} ia_loop;

/* The outermost loop around an instruction; 0 where there is none. */
int ia_loops_outermost(const ia_instructions *, Py_ssize_t at, ia_loop *);
/* The loop that ended last before an instruction, or of all, at -1; 0 where
 * there is none. */
int ia_loops_before(const ia_instructions *, Py_ssize_t at, ia_loop *);
/* Marks those of `count` variables that pass: the targets of for loops, and
 * what that loop, if one is given, sets to what the statement does not make of
 * the value before.  Slots, or names of a module's code.  0, or -1 when memory
 * is short. */
int ia_loops_set(const ia_instructions *, const ia_loop *, int globals,
                 unsigned char *marks, int count);
/* Is the frame at an instruction inside a loop? */
int ia_loops_around(ia_frame *);
/* How many for loops are around it, each with its iterator on the stack. */
int ia_loops_through(ia_frame *);
/* Does a loop around it set the variable in each of its turns, to what is not
 * made of the value before?  A slot, or with slot -1 a name of the module's. */
int ia_loops_renew(ia_frame *, int slot, PyObject *name);

#endif /* IA_LOOPS_H */
