/* Tensors that a holder shows, and whether one of them was made from the one
 * that stood in its place: a holder that is as long as it was, and keeps the
 * graph of ever more steps.
 *
 * Within a walk's brackets.  Nodes are compared, never followed, but those
 * that are there now.
 */
#ifndef IA_CHAIN_H
#define IA_CHAIN_H

#include "../base/build.h"

#include <stdint.h>

/* Tensors of one holder that are told apart; what carries a state from step to
 * step has a few, one to each parameter at most. */
#define IA_MOST_PLACES 256

typedef struct {
    void *node;
    uint64_t sequence;
} ia_graph_end;

typedef struct {
    int goes_on; /* one of them was made from what was in its place before */
    int count;
    ia_graph_end places[IA_MOST_PLACES];
} ia_chain;

/* Reads what the holder shows now, also in its exact tuples, lists and dicts,
 * in place of what it showed when this was read before; one of zeros was not. */
void ia_chain_read(ia_chain *, PyObject *holder);

#endif /* IA_CHAIN_H */
