/* Blocks of memory of NumPy's arrays.
 *
 * NumPy takes them through a table of four functions; ours stand in it while a
 * watch wants them.  All under the GIL, but for what stands in the table.
 */
#ifndef IA_ARRAYS_H
#define IA_ARRAYS_H

#include <stddef.h>

/* Smaller blocks are not accounted for: NumPy makes them in passing, by the
 * million, and keeps them in a cache of its own. */
#define IA_LEAST_ARRAY ((size_t)1024)

/* 1, or 0 where this NumPy can't be watched; -1 with an exception set.  Not in
 * place: by a handler, which this thread's context alone sees. */
int ia_arrays_install(int in_place);
/* Takes ours out where they still stand there, else they hand through; what is
 * in the ledger is struck out, for its end won't be seen. */
int ia_arrays_uninstall(void);
/* What this thread allocates is ours and no birth, until it is told off. */
void ia_arrays_set_own(int on);
/* What is allocated from now on is not reported; deaths still are. */
void ia_arrays_silence(void);
int ia_arrays_installed(void);

#endif /* IA_ARRAYS_H */
