/* Where the ledger's lock is taken: wait in the kernel. */

#include "lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whoever has waited leaves the lock as awaited: others may wait still. */
void
ia_lock_wait(ia_lock *lock)
{
    while (atomic_exchange_explicit(&lock->state, IA_AWAITED,
                                    memory_order_acquire) != IA_FREE)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, IA_AWAITED, NULL,
                NULL, 0);
}

void
ia_lock_wake(ia_lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
