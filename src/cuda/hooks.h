/* What the parts of impactarbiter._cuda offer one another. */
#ifndef IA_CUDA_HOOKS_H
#define IA_CUDA_HOOKS_H

#include "../core/base/core_api.h"

/* module.cpp: the core's table, set once before any event can come. */
extern const ia_core_api *ia_api;

/* trace_hook.cpp.  0, or -1 with an exception set. */
int ia_trace_attach(void);
int ia_trace_attached(void);
/* Nothing is reported from here on. */
void ia_trace_silence(void);
/* The allocator's name, rules and version; new references. */
PyObject *ia_trace_allocator(void);
PyObject *ia_trace_rules(void);
const char *ia_trace_torch_version(void);

#endif /* IA_CUDA_HOOKS_H */
