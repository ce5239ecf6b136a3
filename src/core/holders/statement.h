/* The statement that grows a holder, seen while it does.
 *
 * For one stretch between two boundaries, each line of the user's code that any
 * thread runs is an occasion to look at the holder: the line before the one at
 * which it has changed is the statement.  A C trace function does it; where
 * another tracer is set, nothing is watched.  What grows the holder
 * within library code is put down to the user's line that called.
 */
#ifndef IA_STATEMENT_H
#define IA_STATEMENT_H

#include "visits.h"

/* Statements that are told apart for one holder: a step has some calls of a
 * logger's. */
#define IA_MOST_STATEMENTS 16

/* Watches a path's holder on all threads, and no other any more: 1, or 0 where
 * it can't.  `by_graph`: it may be as long as before, and grow by a tensor made
 * from the one that it had. */
int ia_statement_watch(uint32_t path, int by_graph);
/* Ends it, on any thread. */
void ia_statement_end(void);
/* ([(file, line, function, times, items, idle, calls)], held) of what was seen
 * since the watch began, and whether the path held all along; new reference.
 * While the watch lasts: what was seen so far.  Where some statements brought
 * items that lead to tensors, these items of these alone.  `calls`: (file,
 * line, function) of the user's calls around it, the innermost first. */
PyObject *ia_statement_build(void);

#endif /* IA_STATEMENT_H */
