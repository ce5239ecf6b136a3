/* The calling thread's registers and the top of its stack. */

#include "../base/memory.h"
#include "dump.h"

#if defined(__x86_64__) && defined(__linux__)
/* Those that a callee gives back as they were, by their numbers: rbx, rbp,
 * rsp, r12 to r15, rip. */
__attribute__((noinline)) void
ia_dump_take(ia_dump *d)
{
    uint64_t *r = d->registers;
    __asm__ volatile("movq %%rbx, 24(%0)\n\t"
                     "movq %%rbp, 48(%0)\n\t"
                     "movq %%rsp, 56(%0)\n\t"
                     "movq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\t"
                     "movq %%r14, 112(%0)\n\t"
                     "movq %%r15, 120(%0)\n\t"
                     "leaq 0(%%rip), %%rax\n\t"
                     "movq %%rax, 128(%0)"
                     :
                     : "r"(r)
                     : "rax", "memory");
    d->bytes = ia_memory_read(d->stack, r[7], sizeof d->stack);
}
#else
void
ia_dump_take(ia_dump *d)
{
    d->bytes = 0;
}
#endif
