/* Which calls led to where a dump of a stack was taken. */
#ifndef IA_UNWIND_H
#define IA_UNWIND_H

#include "dump.h"

/* Addresses of calls, the innermost first, as far as the tables of what is
 * loaded now tell them; every read is the kernel's, so what is not there ends
 * the list.  Ends before the interpreter's frames. */
uint32_t ia_unwind(const ia_dump *, uintptr_t *calls, uint32_t most);

#endif /* IA_UNWIND_H */
