/* Whose code a file is: a library's or the user's.
 *
 * Everything expects the ledger's lock to be held.
 */
#ifndef IA_LIBRARIES_H
#define IA_LIBRARIES_H

#include <stddef.h>

/* Path prefixes of library code; copies them.  0 or -1 (memory). */
int ia_libraries_set(const char *const *prefixes, size_t count);
/* Files that are the user's although a prefix covers them. */
int ia_libraries_except(const char *const *files, size_t count);
int ia_library_has(const char *file);

#endif /* IA_LIBRARIES_H */
