/* What each thread has of its own.
 *
 * On x86-64 a library that is loaded later asks the loader for the place of
 * its threads' variables, at every use.  glibc keeps some room for libraries
 * that have a few bytes and would rather know it: so what is read in a birth
 * or death says so, and must stay small.  Elsewhere the usual way is as fast.
 */
#ifndef IA_THREAD_H
#define IA_THREAD_H

#if defined(__x86_64__) && defined(__GLIBC__)
#define IA_OF_THREAD                                                          \
    _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define IA_OF_THREAD _Thread_local
#endif

#endif /* IA_THREAD_H */
