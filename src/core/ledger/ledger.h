/* The ledger: births and deaths as they come, written into the journal.
 *
 * They come from any thread, with or without the GIL.  What else asks for
 * them, intervals, the ring and native stacks, is told at once.
 */
#ifndef IA_LEDGER_H
#define IA_LEDGER_H

#include "birthplace.h"
#include "journal.h"

#include <stddef.h>
#include <stdint.h>

/* Where and when a storage was born, as known at that moment. */
typedef struct {
    uint32_t stack;
    uint32_t generation;
    uint32_t position;
    uint16_t allowed;
    uint16_t phase;
} ia_birth;

/* These take the lock. */
void ia_ledger_born(uintptr_t key, size_t bytes, uint16_t device);
void ia_ledger_died(uintptr_t key);
/* The same, unless the row by that key is another device's by now. */
void ia_ledger_left(uintptr_t key, uint16_t device);
/* The same row, of so many bytes from here on, if it is that device's. */
void ia_ledger_resized(uintptr_t key, uint16_t device, size_t bytes);
/* 1, or 0 where `from` is not in the ledger or memory is short. */
int ia_ledger_renamed(uintptr_t from, uintptr_t to);
/* A storage whose birth was noticed late: its own stack and generation. */
void ia_ledger_born_at(uintptr_t key, size_t bytes, uint16_t device,
                       const ia_birth *);
/* A block is being replaced, and another may get its key meanwhile: bytes of
 * the row that goes by `aside` now, 0 where there is none.  Takes the lock. */
size_t ia_ledger_set_aside(uintptr_t key, uintptr_t aside);
/* Where a tensor shows NumPy's block it counts by the tensor's device from now
 * on.  1 where the ledger has a row by that key.  Takes the lock. */
int ia_ledger_show(uintptr_t key, uint16_t device);
/* Strikes out NumPy's blocks.  Takes the lock. */
void ia_ledger_forget_arrays(void);
/* The birth of a Python tensor on this thread.  Its stack is that of the
 * storage just born for it, else captured now; takes the lock. */
ia_birth ia_ledger_birth(void);

/* Nanoseconds spent in births and deaths, by sampling. */
uint64_t ia_ledger_hook_ns(void);
/* Around the body of a hook; what begin returned goes into end. */
uint64_t ia_ledger_hook_begin(void);
void ia_ledger_hook_end(uint64_t begin);

/* Set for the calling thread: the collector runs / inside allow(). */
void ia_ledger_set_collecting(int how);
int ia_ledger_collecting(void);
uint16_t ia_ledger_set_allowed(uint16_t label);

/* What born and died do, with the lock held; add() returns the birth's
 * stack. */
uint32_t ia_ledger_add(const ia_place *, uintptr_t key, size_t bytes,
                       uint16_t device);
void ia_ledger_remove(uintptr_t key);

#endif /* IA_LEDGER_H */
