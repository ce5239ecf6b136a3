/* Python's objects by type, and what else a walk can weigh: bytes. */
#ifndef IA_TALLY_H
#define IA_TALLY_H

#include "../base/bitmap.h"
#include "../base/footprint.h"
#include "../base/ptrmap.h"

typedef struct {
    PyTypeObject *type; /* borrowed */
    uint64_t count;
    uint64_t bytes;
    /* The entry that most of the bytes hang on, if one has most of them: a
     * vote by bytes, in which what one brings takes away what others have.
     * So many that are left are surely its own. */
    uint32_t by;
    uint64_t votes;
} ia_type_total;

typedef struct ia_tally {
    ia_bitmap *counted;
    ia_type_total *types; /* owned */
    uint32_t ntypes, capacity;
    ia_ptrmap of_type;
    PyTypeObject *last_type; /* that was looked up, and where it is */
    uint32_t last;
    uint64_t bytes, malloc; /* of all types; of these, malloc's */
    uint64_t own, own_malloc; /* the same of this package's own objects */
    uint64_t nodes;  /* bytes of autograd nodes */
    uint64_t arrays; /* NumPy's blocks that the ledger doesn't know */
    int failed;
} ia_tally;

/* 0, or -1 when memory is short. */
int ia_tally_begin(ia_tally *);
void ia_tally_free(ia_tally *);
/* Counts an object that was not counted yet; the entry that led to it, or
 * IA_NO_ENTRY. */
void ia_tally_add(ia_tally *, PyObject *, uint32_t by);
/* Counts one of this package's own; 0: it was counted before. */
int ia_tally_add_own(ia_tally *, PyObject *);

#endif /* IA_TALLY_H */
