/* Ways that a hook seldom takes.
 *
 * A hook runs between two pieces of the program's code that fill the
 * processor's cache: each line of code that it runs through is fetched anew.
 * So the usual way lies in one piece, and what is seldom needed elsewhere.
 */
#ifndef IA_SELDOM_H
#define IA_SELDOM_H

/* A function that is away from the others of its file. */
#define IA_SELDOM __attribute__((noinline, cold))

/* A condition that seldom holds. */
#define ia_seldom(CONDITION) __builtin_expect(!!(CONDITION), 0)

#endif /* IA_SELDOM_H */
