/* Memory of this process, read so that nothing can fault. */
#ifndef IA_MEMORY_H
#define IA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that could be read, from the first on. */
size_t ia_memory_read(void *to, uintptr_t from, size_t size);

#endif /* IA_MEMORY_H */
