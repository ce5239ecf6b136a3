/* Which optimizers step, and how often. */

#include "optimizers.h"

#define OPTIMIZERS 64

static struct {
    PyObject *optimizer; /* address, not a reference */
    uint32_t step;       /* of its last one */
    uint32_t gap;        /* between its last two, 0 after the first */
} known[OPTIMIZERS];
static uint32_t count;
static uint32_t now;

void
ia_optimizers_reset(void)
{
    count = now = 0;
}

void
ia_optimizers_at(uint32_t step)
{
    now = step;
}

void
ia_optimizer_stepped(PyObject *optimizer)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (known[i].optimizer == optimizer) {
            known[i].gap = now - known[i].step;
            known[i].step = now;
            return;
        }
        if (known[i].step < known[oldest].step)
            oldest = i;
    }
    if (count < OPTIMIZERS)
        oldest = count++;
    known[oldest].optimizer = optimizer;
    known[oldest].step = now;
    known[oldest].gap = 0;
}

/* An optimizer counts as thrown away after so many of its usual gaps, and so
 * many steps, without a step of its own. */
#define OPTIMIZER_GAPS 4
#define OPTIMIZER_PATIENCE 2

int
ia_optimizer_steps(PyObject *op)
{
    for (uint32_t i = 0; i < count; i++)
        if (known[i].optimizer == op)
            return now - known[i].step <=
                   OPTIMIZER_GAPS * known[i].gap + OPTIMIZER_PATIENCE;
    return 0;
}
