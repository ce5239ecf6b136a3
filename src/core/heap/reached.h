/* The storages that a walk meets, and where it met each of them first. */
#ifndef IA_REACHED_H
#define IA_REACHED_H

#include "../base/core_api.h"
#include "../base/ptrmap.h"

#define IA_NO_ENTRY UINT32_MAX

/* What a storage is for, most telling first. */
typedef enum {
    IA_FOR_UNKNOWN = 0,
    IA_FOR_ARRAY, /* of NumPy's */
    IA_FOR_GRAPH,
    IA_FOR_BUFFER,
    IA_FOR_OPTIMIZER,
    IA_FOR_GRADIENT,
    IA_FOR_PARAMETER,
    IA_PURPOSES,
} ia_purpose;

/* A storage, known to the ledger or not, and where it was reached first. */
typedef struct {
    uintptr_t key;
    uint64_t bytes;
    uint32_t entry; /* IA_NO_ENTRY: classified, but not reached */
    uint32_t site;
    uint32_t stack;
    uint32_t generation;
    uint32_t position;
    uint16_t device;
    uint16_t purpose; /* ia_purpose */
    uint16_t allowed;
    uint8_t in_ledger;
    uint8_t memory; /* there is some, and not below what the ledger takes in */
    uint8_t claimed; /* a cut would free it */
    /* State of an optimizer that steps, or what it steps by. */
    uint8_t accounted_for;
    uint8_t asked_for; /* who holds it */
    uint32_t beside; /* last of the others that lead to it, or 0 */
} ia_reached;

/* A tensor object that leads to a storage which another led to before. */
typedef struct {
    uint32_t entry;
    uint32_t next; /* of the same storage, or 0 */
} ia_beside;

typedef struct {
    ia_reached *items; /* owned */
    uint32_t count, capacity;
    ia_ptrmap index; /* key -> item */
    ia_beside *beside; /* owned; from 1 */
    uint32_t nbeside, beside_room;
    /* Entries of a first pass before it went on to libraries' modules. */
    uint32_t near_entries;
    /* With what was cut, such modules led to some that were met before them:
     * by a second pass. */
    int in_libraries;
} ia_storages;

/* Was it there before the watch?  Reached, it has memory, and the ledger
 * doesn't know it. */
static inline int
ia_is_older(const ia_reached *r)
{
    return !r->in_ledger && r->memory && r->entry != IA_NO_ENTRY;
}

void ia_storages_free(ia_storages *);
/* What leads to a storage besides what did first; where memory is short, it
 * goes uncounted. */
void ia_storages_add_beside(ia_storages *, ia_reached *, uint32_t entry);
/* Item of a storage, added when it is new; NULL when memory is short. */
ia_reached *ia_storages_get(ia_storages *, const ia_storage *);

#endif /* IA_REACHED_H */
