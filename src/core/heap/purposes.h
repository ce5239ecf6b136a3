/* What storages are for: parameters, buffers, gradients, optimizer state. */
#ifndef IA_PURPOSES_H
#define IA_PURPOSES_H

#include "reached.h"

/* Classifies what an nn.Module or an optimizer holds directly. */
void ia_purpose_note(ia_storages *, PyObject *, int kind);
#endif /* IA_PURPOSES_H */
