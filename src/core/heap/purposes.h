/* What storages are for: parameters, buffers, gradients, optimizer state. */
#ifndef IA_PURPOSES_H
#define IA_PURPOSES_H

#include "reached.h"

/* Classifies what an nn.Module or an optimizer holds directly. */
void ia_purpose_note(ia_storages *, PyObject *, int kind);
/* Classifies what a tensor has as its gradient; where no optimizer has that, it
 * may be what grows. */
void ia_purpose_note_gradient(ia_storages *, PyObject *);
#endif /* IA_PURPOSES_H */
