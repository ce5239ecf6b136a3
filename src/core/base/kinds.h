/* Kinds of Python types, as NumPy and the framework know them.
 *
 * Found once per type and remembered until ia_kinds_forget(), which comes
 * before every walk: a type may die, and another take its address.
 */
#ifndef IA_KINDS_H
#define IA_KINDS_H

#include "core_api.h"
#include "frameworks.h"

/* Beside the framework's own kinds (ia_kind). */
#define IA_KIND_NDARRAY 16
#define IA_KIND_MODULE 17    /* torch.nn.Module or a subclass */
#define IA_KIND_OPTIMIZER 18

/* Borrowed types, process-wide. */
void ia_kinds_set_types(PyTypeObject *module, PyTypeObject *optimizer);
void ia_kinds_forget(void);
int ia_kind_of(PyTypeObject *);

#endif /* IA_KINDS_H */
