/* Names that do not last: variables that a loop sets, its targets among them,
 * temporaries, and variables of calls that were seen to come and go.
 *
 * `for callback in trainer.callbacks:` makes `callback` a second, shorter
 * name of what the trainer holds, until the loop goes on; `bucket =
 * buckets[key]` in a loop does likewise.  A walk takes such names last, so that
 * a path leads through what stays.
 */
#ifndef IA_PASSING_H
#define IA_PASSING_H

#include "loops.h"

typedef struct {
    PyCodeObject *code; /* borrowed; NULL: nothing was read */
    int named;          /* slots that have names; temporaries follow */
    /* 1 for what a loop sets; names by index into co_names. */
    unsigned char slots[IA_MOST_VARIABLES], names[IA_MOST_VARIABLES];
} ia_passing;

/* Reads the code of one frame; 0, or -1 when memory is short. */
int ia_passing_read(ia_passing *, PyCodeObject *);
void ia_passing_free(ia_passing *);
/* A path that began at a variable of this code did not hold: what it led to is
 * better called by another name, if there is one.  Compared, never followed. */
void ia_passing_note(const PyCodeObject *);
int ia_passing_is_noted(const PyCodeObject *);
void ia_passing_forget_all(void);
/* Is it a temporary, or set by a loop? */
int ia_passing_slot(const ia_passing *, int slot);
/* Is it a variable of the module that a loop at its top level sets? */
int ia_passing_name(const ia_passing *, PyObject *name);

#endif /* IA_PASSING_H */
