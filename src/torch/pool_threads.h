/* Threads of torch's own, on which a script runs what it forks.
 *
 * They never have the GIL, and go on when the call that woke them is back in
 * Python.
 */
#ifndef IA_POOL_THREADS_H
#define IA_POOL_THREADS_H

#pragma GCC visibility push(hidden)

/* Nonzero where one of them is awake (GIL).  While none is, only a thread that
 * is loose can wake one.  They are listed where the process has another number
 * of threads than before, or `anew`, which takes 8 microseconds a thread. */
int ia_pool_is_busy(int anew);

#pragma GCC visibility pop
#endif /* IA_POOL_THREADS_H */
