/* Optimizers that step: which there are, and when a round of them begins.
 *
 * A person counts one step where a program steps several optimizers in turn:
 * the two of a GAN, one a parameter.  A round begins when an optimizer steps
 * that has stepped in this round already, and when a new one, or one that was
 * thrown away, comes after the first round, or in place of one that is gone.
 * Addresses and weak references; the GIL guards all.
 */
#ifndef IA_OPTIMIZERS_H
#define IA_OPTIMIZERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

void ia_optimizers_reset(void);
/* Has no reference any more; which stepped is known all the same. */
void ia_optimizers_let_go(void);
/* A step in round `round`, the first of which is 1: 1 where it begins the
 * next one. */
int ia_optimizers_step(PyObject *optimizer, uint32_t round);
/* Is this optimizer known to step, and not thrown away since? */
int ia_optimizer_steps(PyObject *optimizer);
/* Is there any at all, even one that never steps? */
int ia_optimizers_exist(void);

#endif /* IA_OPTIMIZERS_H */
