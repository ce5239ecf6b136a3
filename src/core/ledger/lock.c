/* Where the ledger's lock is taken by its word, and who owns it. */

#include "lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* To take the ownership away takes some 10 us, and to own the lock saves some
 * 15 ns each time that it is taken.  Each time that it was taken away twice as
 * many are asked for, so that threads which take turns for good pay for their
 * first turns only. */
#define FIRST_WANTED ((uint32_t)1 << 10)
#define MOST_WANTED ((uint32_t)1 << 24)

IA_OF_THREAD char ia_lock_me;

/* -- the word --------------------------------------------------------------- */

/* Whoever has waited leaves the lock as awaited: others may wait still. */
static void
wait_for_word(ia_lock *lock)
{
    while (atomic_exchange_explicit(&lock->state, IA_AWAITED,
                                    memory_order_acquire) != IA_FREE)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, IA_AWAITED, NULL,
                NULL, 0);
}

void
ia_lock_give_word(ia_lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, IA_FREE,
                                 memory_order_release) == IA_AWAITED)
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL,
                0);
}

/* -- ownership -------------------------------------------------------------- */

static int
can_bar(void)
{
    static atomic_int known; /* 0: not asked yet */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        long refused = syscall(SYS_membarrier,
                               MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0);
        answer = refused ? -1 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer > 0;
}

static void
nap(long ns)
{
    struct timespec rest = {0, ns};
    nanosleep(&rest, NULL);
}

/* A filter of system calls may have come between: a store is seen by all long
 * before so many nanoseconds have passed. */
static void
bar(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0)
        nap(1000000);
}

/* The owner is inside for less than a microsecond, if it runs. */
static void
wait_for_owner(ia_lock *lock)
{
    for (int i = 0; atomic_load_explicit(&lock->inside, memory_order_acquire);
         i++)
        if (i < 64)
            sched_yield();
        else
            nap(50000);
}

static void
take_from_owner(ia_lock *lock)
{
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
    bar();
    wait_for_owner(lock);
    lock->row = 0;
    if (lock->wanted < MOST_WANTED)
        lock->wanted *= 2;
}

/* Nobody owns it, and the caller has the word. */
static int
has_earned_it(ia_lock *lock)
{
    const void *me = &ia_lock_me;
    lock->row = lock->last == me ? lock->row + 1 : 0;
    lock->last = me;
    if (lock->wanted == 0)
        lock->wanted = FIRST_WANTED;
    return lock->row >= lock->wanted && can_bar();
}

/* From here on the caller is inside as the owner. */
static void
become_owner(ia_lock *lock)
{
    lock->by_owner = 1;
    atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
    atomic_store_explicit(&lock->owner, &ia_lock_me, memory_order_release);
    ia_lock_give_word(lock);
}

void
ia_lock_take_word(ia_lock *lock)
{
    int free = IA_FREE;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &free, IA_TAKEN,
                                                 memory_order_acquire,
                                                 memory_order_relaxed))
        wait_for_word(lock);
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != NULL)
        take_from_owner(lock);
    lock->by_owner = 0;
    if (has_earned_it(lock))
        become_owner(lock);
}

void
ia_lock_after_fork(ia_lock *lock)
{
    *lock = (ia_lock){.wanted = lock->wanted};
}
