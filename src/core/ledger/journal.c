/* From the journal to the book. */

#include "journal.h"

struct ia_journal ia_the_journal;

static int
enter(const ia_unposted *e)
{
    return ia_book_enter_young(e->key, e->bytes, e->stack, e->site, e->device);
}

static void
strike(const ia_unposted *e)
{
    ia_row gone;
    if (!ia_book_strike_young(e->key, e->collecting))
        ia_book_strike(e->key, e->collecting, &gone);
}

void
ia_journal_post(void)
{
    const ia_unposted *end = ia_the_journal.entries + ia_the_journal.count;
    for (const ia_unposted *e = ia_the_journal.entries; e < end; e++) {
        if (e->death)
            strike(e);
        else if (enter(e) == 0) {
            strike(e); /* one whose death was not seen */
            enter(e);
        }
    }
    ia_the_journal.count = 0;
}

void
ia_journal_after_fork(void)
{
    ia_lock_after_fork(&ia_the_journal.lock);
}
