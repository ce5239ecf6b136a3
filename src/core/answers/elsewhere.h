/* What an object has that others hold as well.
 *
 * Cutting a model frees nothing while an optimizer has its parameters: then
 * the question is who else holds them.  What an object has is what its
 * attributes and items lead to, not what its classes, functions and modules
 * do.
 */
#ifndef IA_ELSEWHERE_H
#define IA_ELSEWHERE_H

#include "question.h"

/* (bytes, storages, path to the largest) of the target's that something else
 * leads to, None where there is none. */
PyObject *ia_elsewhere_build(ia_question *, PyObject *target);

#endif /* IA_ELSEWHERE_H */
