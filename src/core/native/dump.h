/* What is left of a moment on a thread's C stack: registers, and the memory
 * from the stack pointer on.
 *
 * Taking one calls nothing but the kernel, which reads, and cannot fault: no
 * unwinder runs, no loader is asked.  What had called whom is found later
 * (unwind.h).
 */
#ifndef IA_DUMP_H
#define IA_DUMP_H

#include <stddef.h>
#include <stdint.h>

/* From an allocator to what has called torch lie some KiB, and a frame of the
 * interpreter's is the end of what is asked for. */
#define IA_DUMP_BYTES 16384
/* Registers by the numbers that unwind tables give them; the last one is the
 * address of the next instruction. */
#define IA_DUMP_REGISTERS 17

typedef struct {
    uint64_t registers[IA_DUMP_REGISTERS];
    size_t bytes; /* that were read; 0 on other processors */
    unsigned char stack[IA_DUMP_BYTES];
} ia_dump;

/* Of the calling thread, now. */
void ia_dump_take(ia_dump *);

#endif /* IA_DUMP_H */
