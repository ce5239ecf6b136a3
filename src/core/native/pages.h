/* Which pages of this process are in memory, by the kernel's account.
 *
 * A page that is read for the first time is given one, and the table that it
 * stands in: 2 MiB for each GiB that a program has only reserved.
 */
#ifndef IA_PAGES_H
#define IA_PAGES_H

#include <stdint.h>

/* Between these two the rest may be asked.  Needs the GIL. */
void ia_pages_begin(void);
/* 1 where more was asked for than is told. */
int ia_pages_end(void);
/* The first page from `at` on, where one begins, that is in memory; `limit`
 * where there is none, or where enough have been told. */
uintptr_t ia_pages_next(uintptr_t at, uintptr_t limit);
/* Bytes that the machine has. */
uint64_t ia_pages_memory(void);

#endif /* IA_PAGES_H */
