/* What the operating system says of this process. */
#ifndef IA_PROCESS_H
#define IA_PROCESS_H

#include <stdint.h>

/* Resident bytes, or 0 where /proc does not say.  Allocates nothing. */
uint64_t ia_process_resident(void);

#endif /* IA_PROCESS_H */
