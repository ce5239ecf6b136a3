/* What a library calls the memory at an address of its own. */
#ifndef IA_SYMBOLS_H
#define IA_SYMBOLS_H

#include "segments.h"

/* 1 and the name of the variable or function as C++ writes it, or 0: the
 * library was
 * stripped of it, or its file is not the one any more that was loaded. */
int ia_symbol_name(const ia_segment *, uintptr_t address, char *name,
                   size_t size);

#endif /* IA_SYMBOLS_H */
