/* Which loaded library an instruction is of. */
#ifndef IA_LOADED_H
#define IA_LOADED_H

#include "segments.h"

/* Where the index of the library's unwind tables is; 0: there is none, or the
 * address is of no library, or of the interpreter's, whose callers are told
 * as Python's frames. */
uintptr_t ia_loaded_index(uintptr_t address);

/* The library, for its symbols: 1, or 0.  Its path is the caller's to free. */
int ia_loaded_library(uintptr_t address, ia_segment *);

#endif /* IA_LOADED_H */
