/* The ledger's lock: a word, the kernel's queue where somebody waits, and a
 * thread that may come in without the word.
 *
 * A birth and a death take it once each, on one and the same thread nearly
 * always.  So the thread that took it many times in a row owns it from then
 * on: it says that it is inside, and is, where it still owns the lock then.
 * That takes no locked instruction.  Whoever else wants in takes the word,
 * takes the ownership away and has the kernel run a barrier on every processor
 * that runs a thread of this process.  Behind it the owner either was seen to
 * be inside, and is waited for, or sees that it owns nothing any more.  Where
 * the kernel has no such barrier nobody ever owns the lock.
 */
#ifndef IA_LOCK_H
#define IA_LOCK_H

#include "../base/seldom.h"
#include "../base/thread.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { IA_FREE, IA_TAKEN, IA_AWAITED };

typedef struct {
    atomic_int state;           /* the word */
    atomic_int inside;          /* is the owner? */
    _Atomic(const void *) owner; /* as ia_lock_me has it, or NULL */
    /* The rest is for whoever is inside. */
    int by_owner;     /* came in without the word */
    const void *last; /* who took the word the last time */
    uint32_t row;     /* how often in a row */
    uint32_t wanted;  /* so often, to own it */
} ia_lock;

/* Its address is the calling thread's. */
extern IA_OF_THREAD char ia_lock_me;

void ia_lock_take_word(ia_lock *) IA_SELDOM;
void ia_lock_give_word(ia_lock *) IA_SELDOM;
/* In the child of a fork, whose one thread holds it: free, and nobody's. */
void ia_lock_after_fork(ia_lock *);

static inline void
ia_lock_take(ia_lock *lock)
{
    const void *me = &ia_lock_me;
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == me) {
        atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
        /* For the processor, the kernel's barrier is between the two. */
        atomic_signal_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == me) {
            lock->by_owner = 1;
            return;
        }
        atomic_store_explicit(&lock->inside, 0, memory_order_release);
    }
    ia_lock_take_word(lock);
}

static inline void
ia_lock_give(ia_lock *lock)
{
    if (lock->by_owner)
        atomic_store_explicit(&lock->inside, 0, memory_order_release);
    else
        ia_lock_give_word(lock);
}

#endif /* IA_LOCK_H */
