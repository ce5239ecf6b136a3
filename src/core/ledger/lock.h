/* The ledger's lock: a word, and the kernel's queue where somebody waits.
 *
 * A birth and a death take it once each, and a thread seldom meets another
 * there: what is left of a mutex then are two exchanges, in line.
 */
#ifndef IA_LOCK_H
#define IA_LOCK_H

#include <stdatomic.h>

enum { IA_FREE, IA_TAKEN, IA_AWAITED };

typedef struct {
    atomic_int state;
} ia_lock;

void ia_lock_wait(ia_lock *);
void ia_lock_wake(ia_lock *);

static inline void
ia_lock_take(ia_lock *lock)
{
    int free = IA_FREE;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &free, IA_TAKEN,
                                                 memory_order_acquire,
                                                 memory_order_relaxed))
        ia_lock_wait(lock);
}

static inline void
ia_lock_give(ia_lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, IA_FREE,
                                 memory_order_release) == IA_AWAITED)
        ia_lock_wake(lock);
}

#endif /* IA_LOCK_H */
