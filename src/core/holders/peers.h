/* Results that stand side by side, the (h, c) of an LSTM or the weights of an
 * inner loop, hang on one graph: cutting one of them frees nothing, their
 * container is what holds it, be one of them a variable besides.
 */
#ifndef IA_PEERS_H
#define IA_PEERS_H

#include "../base/ptrmap.h"
#include "../heap/walk.h"

/* The last answer, as members of one holder come together, and the containers
 * beside variables, by the results in them. */
typedef struct {
    uint32_t entry, holder;
    ia_ptrmap beside; /* freed by the caller */
    int listed; /* those containers are in it */
} ia_peers_memo;

/* The container that holds what entry is one of; else entry itself. */
uint32_t ia_with_peers(const ia_walk *, uint32_t entry, ia_peers_memo *);

#endif /* IA_PEERS_H */
