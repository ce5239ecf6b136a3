/* The journal: births and deaths in the order that they came in, until they
 * are posted to the book.
 *
 * Between two births a program runs through more code than a processor has
 * near at hand, so what a hook runs is fetched anew each time.  A hook writes
 * one entry; the book's code runs for many of them, one after the other.  They
 * are posted when there is no place for another, and before anybody sees the
 * book: whoever takes the ledger's lock finds all posted.
 *
 * The lock guards the journal, the book and the site tables of sites.c;
 * nothing is called while it is held that could take another lock or the GIL.
 */
#ifndef IA_JOURNAL_H
#define IA_JOURNAL_H

#include "../base/seldom.h"
#include "book.h"
#include "lock.h"

typedef struct {
    uintptr_t key;
    uint64_t bytes;
    uint32_t stack; /* down to the device of a birth alone */
    uint32_t site;
    uint16_t device;
    uint8_t death;
    uint8_t collecting; /* how the collector ran on the thread it came from */
} ia_unposted;

extern struct ia_journal {
    ia_lock lock;
    uint32_t count;
    ia_unposted entries[IA_UNPOSTED];
} ia_the_journal;

/* Posts all entries.  With the lock held. */
void ia_journal_post(void);

/* The lock alone: for who writes here, or reads sites.c, and sees no book. */
static inline void
ia_journal_lock(void)
{
    ia_lock_take(&ia_the_journal.lock);
}

static inline void
ia_ledger_lock(void)
{
    ia_journal_lock();
    if (ia_the_journal.count > 0)
        ia_journal_post();
}

static inline void
ia_ledger_unlock(void)
{
    ia_lock_give(&ia_the_journal.lock);
}

static inline void
one_more(void)
{
    if (ia_seldom(++ia_the_journal.count == IA_UNPOSTED))
        ia_journal_post();
}

/* With the lock held.  Of the tick and the phase that are now, and of nobody
 * who allows it. */
static inline void
ia_journal_birth(uintptr_t key, uint64_t bytes, uint32_t stack, uint32_t site,
                 uint16_t device, int collecting)
{
    ia_unposted *e = &ia_the_journal.entries[ia_the_journal.count];
    e->key = key;
    e->bytes = bytes;
    e->stack = stack;
    e->site = site;
    e->device = device;
    e->death = 0;
    e->collecting = (uint8_t)collecting;
    one_more();
}

static inline void
ia_journal_death(uintptr_t key, int collecting)
{
    ia_unposted *e = &ia_the_journal.entries[ia_the_journal.count];
    e->key = key;
    e->death = 1;
    e->collecting = (uint8_t)collecting;
    one_more();
}

/* In the child of a fork, by the thread that held the lock over it. */
void ia_journal_after_fork(void);

#endif /* IA_JOURNAL_H */
