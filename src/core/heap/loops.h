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

/* Variables of one code that are told apart. */
#define IA_MOST_VARIABLES 256

/* Marks those that some loop sets, be it over by now, to what that statement
 * does not make of the value before: slots, or names of a module's code.  0, or
 * -1 when memory is short. */
int ia_loops_set(const ia_instructions *, int globals,
                 unsigned char marks[IA_MOST_VARIABLES]);
/* Is the frame at an instruction inside a loop? */
int ia_loops_around(ia_frame *);
/* How many for loops are around it, each with its iterator on the stack. */
int ia_loops_through(ia_frame *);
/* Does a loop around it set the variable in each of its turns, to what is not
 * made of the value before?  A slot, or with slot -1 a name of the module's. */
int ia_loops_renew(ia_frame *, int slot, PyObject *name);

#endif /* IA_LOOPS_H */
