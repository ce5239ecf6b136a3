/* Which operations of live graphs will still read a block of memory, and at
 * which line each was called.
 *
 * A walk has met every node that Python can reach; each is asked once more
 * what it saved.  Nothing is unpacked: no hook runs, no tensor is made.  A
 * node knows no line; where memory that was born in its forward is alive still
 * and nobody has written to it since, that memory's line is the call's.
 */
#ifndef IA_NEEDED_H
#define IA_NEEDED_H

#include "../heap/walk.h"
#include "../ledger/sites.h"

/* Readers that are told by name; the rest are counted. */
#define IA_MAX_READERS 64

typedef struct {
    uint64_t site;  /* number of its call's in the forward; 0: unknown */
    uint32_t entry; /* of the node */
    char saved[48]; /* "saved[mat1]" */
} ia_reader;

typedef struct {
    uintptr_t key;   /* as ia_reached has it; 0: nothing to look for */
    uint32_t count;  /* all of them */
    uint32_t same;   /* the first of all with that key */
    ia_reader *first; /* owned, at most IA_MAX_READERS; NULL: none */
} ia_needed;

/* Fills all but the key of each.  0, or -1 when memory is short. */
int ia_needed_find(ia_walk *, ia_needed *, uint32_t count);
void ia_needed_free(ia_needed *, uint32_t count);
/* (how many, [(node, saved, site), ...]), or None where the graph was left
 * out. */
PyObject *ia_needed_build(const ia_walk *, const ia_needed *, Py_ssize_t i);

#endif /* IA_NEEDED_H */
