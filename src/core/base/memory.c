/* The kernel reads, and says where there is nothing. */

#include "memory.h"

#include <sys/uio.h>
#include <unistd.h>

size_t
ia_memory_read(void *to, uintptr_t from, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)from, size};
    ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    return n > 0 ? (size_t)n : 0;
}
