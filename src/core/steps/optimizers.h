/* Which optimizers step, and how often: a throw-away one accounts for nothing.
 *
 * All under the GIL; optimizers are addresses, never references.
 */
#ifndef IA_OPTIMIZERS_H
#define IA_OPTIMIZERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

void ia_optimizers_reset(void);
/* A new step has begun. */
void ia_optimizers_at(uint32_t step);
/* The optimizer step hook: this one has stepped. */
void ia_optimizer_stepped(PyObject *optimizer);
/* Is it known to step, still? */
int ia_optimizer_steps(PyObject *optimizer);

#endif /* IA_OPTIMIZERS_H */
