/* Optimizers that step. */

#include "../base/compat.h"
#include "optimizers.h"

#include "../base/kinds.h"
#include "../base/ptrmap.h"

#include <string.h>

/* Optimizers that are told apart; programs have one per parameter at most. */
#define OPTIMIZERS 1024

/* An optimizer counts as thrown away after GAPS of its usual gaps, and
 * PATIENCE rounds, without a step of its own. */
#define GAPS 4
#define PATIENCE 2

static struct {
    struct {
        PyObject *optimizer; /* address, not a reference */
        PyObject *alive;     /* owned: weak; NULL where that is not known */
        uint32_t round;      /* of its last step */
        uint32_t gap;        /* between its last two, 0 after the first */
    } items[OPTIMIZERS];
    uint32_t count;
    uint32_t round;
    uint32_t regular; /* the last that was begun by one of the round before */
    uint32_t members, before; /* steps in this round, and in the one before */
    ia_ptrmap index;
} known;

void
ia_optimizers_let_go(void)
{
    for (uint32_t i = 0; i < known.count; i++)
        Py_CLEAR(known.items[i].alive);
}

void
ia_optimizers_reset(void)
{
    ia_optimizers_let_go();
    known.count = known.round = known.regular = 0;
    known.members = known.before = 0;
    ia_ptrmap_free(&known.index);
}

static uint32_t
oldest(void)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < known.count; i++)
        if (known.items[i].round < known.items[least].round)
            least = i;
    return least;
}

static void
begin(uint32_t i, PyObject *optimizer)
{
    PyObject *before = known.items[i].alive;
    PyObject *alive = PyWeakref_NewRef(optimizer, NULL);
    if (alive == NULL)
        PyErr_Clear();
    memset(&known.items[i], 0, sizeof known.items[i]);
    known.items[i].optimizer = optimizer;
    known.items[i].alive = alive;
    Py_XDECREF(before);
}

static uint32_t
add(PyObject *optimizer)
{
    uint32_t i = known.count < OPTIMIZERS ? known.count : oldest();
    if (i < known.count)
        ia_ptrmap_pop(&known.index, (uintptr_t)known.items[i].optimizer);
    if (ia_ptrmap_set(&known.index, (uintptr_t)optimizer, i) < 0)
        return IA_PTRMAP_NONE;
    if (i == known.count)
        known.count++;
    begin(i, optimizer);
    return i;
}

/* Its address may be another's by now. */
static int
is_gone(uint32_t i)
{
    PyObject *alive = known.items[i].alive;
    return alive != NULL && ((PyWeakReference *)alive)->wr_object == Py_None;
}

static int
is_thrown_away(uint32_t i)
{
    return is_gone(i) || known.round - known.items[i].round >
                             GAPS * known.items[i].gap + PATIENCE;
}

/* Has one that stepped in this round been let go of?  Those that a program
 * steps in turn all last: one that takes another's place is a step on. */
static int
has_lost_one(uint32_t round)
{
    for (uint32_t i = 0; i < known.count; i++)
        if (known.items[i].round == round && is_gone(i))
            return 1;
    return 0;
}

/* Is one that is new one more of those that step in this round, and not a step
 * on?  The first round shows who they are; a later one has several where the
 * one before had, and one of these has begun it. */
static int
is_one_more(uint32_t round)
{
    int of_several =
        round > 1 && round == known.regular && known.before > 1;
    return (round == 1 || of_several) && !has_lost_one(round);
}

int
ia_optimizers_step(PyObject *optimizer, uint32_t round)
{
    uint32_t i = ia_ptrmap_get(&known.index, (uintptr_t)optimizer);
    int is_new = i == IA_PTRMAP_NONE || is_gone(i);
    /* One that was thrown away may come back; of one step alone nothing
     * follows. */
    int again = !is_new && known.items[i].gap > 0 && is_thrown_away(i);
    int begins = is_new || again ? !is_one_more(round)
                                 : known.items[i].round == round;
    if (i == IA_PTRMAP_NONE && (i = add(optimizer)) == IA_PTRMAP_NONE)
        return 1;
    if (is_gone(i))
        begin(i, optimizer);
    known.round = round + (uint32_t)begins;
    if (begins)
        known.before = known.members;
    known.members = begins ? 1 : known.members + 1;
    if (begins && !is_new && !again)
        known.regular = known.round;
    if (!is_new)
        known.items[i].gap = known.round - known.items[i].round;
    known.items[i].round = known.round;
    return begins;
}

int
ia_optimizer_steps(PyObject *optimizer)
{
    uint32_t i = ia_ptrmap_get(&known.index, (uintptr_t)optimizer);
    return i != IA_PTRMAP_NONE && !is_thrown_away(i);
}

static void
note_optimizer(PyObject *op, void *arg)
{
    int *found = arg;
    *found = *found || ia_kind_of(Py_TYPE(op)) == IA_KIND_OPTIMIZER;
}

int
ia_optimizers_exist(void)
{
    int found = 0;
    ia_each_gc_object(note_optimizer, &found);
    return found;
}
