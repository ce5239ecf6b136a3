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

/* Of the two the first is a birth: is the second its death, and both are in
 * the book now? */
static int
pass(const ia_unposted *born, const ia_unposted *next)
{
    return next->key == born->key && next->death &&
           ia_book_pass(born->key, born->bytes, born->site, born->device,
                        next->collecting);
}

void
ia_journal_post(void)
{
    const ia_unposted *end = ia_the_journal.entries + ia_the_journal.count;
    for (const ia_unposted *e = ia_the_journal.entries; e < end; e++) {
        if (e->death)
            strike(e);
        else if (e + 1 < end && pass(e, e + 1))
            e++;
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
