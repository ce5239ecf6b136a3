/* Names that do not last: the targets of for loops, variables that a loop sets
 * again, while it runs or until another one does, temporaries, and variables of
 * calls that were seen to come and go.
 *
 * `for callback in trainer.callbacks:` makes `callback` a second, shorter
 * name of what the trainer holds, until the loop goes on; `bucket =
 * buckets[key]` in a loop does likewise.  A walk takes such names last, so that
 * a path leads through what stays.
 */
#ifndef IA_PASSING_H
#define IA_PASSING_H

#include "../base/ptrmap.h"

#include <Python.h>

/* Of one code at one instruction: variables of a call, or names of a module. */
typedef struct {
    PyCodeObject *code;   /* borrowed */
    Py_ssize_t at;        /* -1: it does not run */
    int named;            /* slots that have names; temporaries follow */
    int count;            /* of marks */
    unsigned char *marks; /* owned; 1 for those of loops */
} ia_passing;

/* Those that a walk has come to. */
typedef struct {
    ia_passing *items; /* owned */
    uint32_t count, capacity;
    ia_ptrmap known; /* by code and instruction: index */
} ia_passing_codes;

/* Until the next is asked for; NULL when memory is short. */
const ia_passing *ia_passing_of(ia_passing_codes *, PyCodeObject *,
                                Py_ssize_t at);
void ia_passing_free(ia_passing_codes *);
/* A path that began at a variable of this code did not hold: what it led to is
 * better called by another name, if there is one.  Compared, never followed. */
void ia_passing_note(const PyCodeObject *);
int ia_passing_is_noted(const PyCodeObject *);
void ia_passing_forget_all(void);
/* Is it a temporary, or a loop's? */
int ia_passing_slot(const ia_passing *, int slot);
/* Is it a variable of the module of a loop at its top level? */
int ia_passing_name(const ia_passing *, PyObject *name);

#endif /* IA_PASSING_H */
