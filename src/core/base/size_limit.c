/* Writing where a file may have a limit of its size. */

#include "size_limit.h"

#include <signal.h>
#include <time.h>

static sigset_t
the_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

void
ia_size_limit_begin(ia_size_limit *before)
{
    sigset_t set = the_signal(), mask, pending;
    sigemptyset(&mask);
    sigemptyset(&pending);
    pthread_sigmask(SIG_BLOCK, &set, &mask);
    sigpending(&pending);
    before->was_blocked = sigismember(&mask, SIGXFSZ) == 1;
    before->was_pending = sigismember(&pending, SIGXFSZ) == 1;
}

void
ia_size_limit_end(const ia_size_limit *before)
{
    sigset_t set = the_signal();
    const struct timespec at_once = {0};
    if (!before->was_pending)
        sigtimedwait(&set, NULL, &at_once);
    if (!before->was_blocked)
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
