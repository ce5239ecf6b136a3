/* What is asked about objects, and the walk that answers it.
 *
 * The walk notes every reference into a target, not the first alone.  It goes
 * on through the targets themselves only when all else has been seen, so that
 * nothing counts as a holder that a target itself holds.  The reference that
 * the caller handed in, its own variables and those of the calls that handed
 * the object down to it are not followed: they are how it got here, not why it
 * is alive.  Where there is nothing else, they are the answer.
 */
#ifndef IA_QUESTION_H
#define IA_QUESTION_H

#include "../heap/roots.h"
#include "../heap/unrooted.h"
#include "needed.h"

/* References into one object that are remembered, in the order in which the
 * walk met them: the best first. */
#define IA_MAX_REFERRERS 256
/* Calls that an object is handed down through. */
#define IA_MAX_CALLERS 16

typedef struct {
    PyObject *op; /* borrowed from the tuple */
    uint32_t *referrers; /* owned: entries that refer to it */
    uint32_t count;
    uint32_t variables; /* of the caller: references that it has */
    uint32_t ours; /* the same of our own calls that ask */
    uint32_t crowd; /* entry of the crowd it is a member of, or NONE */
} ia_target;

/* References that variables of the calls have which lead to the question. */
static inline uint32_t
ia_references_of_calls(const ia_target *t)
{
    return t->variables + t->ours;
}

/* A running call that has a target in a variable. */
typedef struct {
    uintptr_t frame; /* ref */
    uintptr_t names; /* its namespace when it is a module's, or 0 */
} ia_caller;

typedef struct {
    ia_walk w;
    ia_storages storages;
    ia_roots roots;
    ia_target *targets;
    Py_ssize_t ntargets;
    ia_ptrmap index;
    ia_caller callers[IA_MAX_CALLERS]; /* innermost first */
    int ncallers;
    ia_cut *cuts; /* owned */
    uint32_t ncuts;
    PyObject **handed; /* owned */
    uint32_t nhanded;
    uint32_t handed_capacity;
    ia_needed *needed; /* owned: by live graphs, one for each target */
    int past_targets; /* on through the targets */
    uint32_t before_targets; /* entries when it went on through them */
    int told_apart; /* what is seen is what others hold */
    uint32_t *above; /* owned: the nearest target above each entry, or NONE */
    uint32_t traced, above_capacity;
    int still; /* what walk_begin said */
    int collecting; /* the collector was on */
} ia_question;

/* Everything between the two is done with the heap standing still. */
void ia_question_begin(ia_question *);
void ia_question_finish(ia_question *);
/* Takes the objects of a tuple as targets, which it came in, and walks; 0, or
 * -1 with an exception. */
int ia_question_ask(ia_question *, PyObject *objects);
/* What something leads to that is no target and no variable of the caller's;
 * good for tests of what the walk has met, which is over. */
const ia_bitmap *ia_question_held_by_others(ia_question *);
/* The entry of the outermost call or namespace that has the target in a
 * variable, or IA_NO_ENTRY. */
uint32_t ia_question_variable_of(const ia_question *, PyObject *target);

#endif /* IA_QUESTION_H */
