/* Holders with all that hangs on them, largest first, and which are of one
 * sort. */
#ifndef IA_HOLDERS_H
#define IA_HOLDERS_H

#include "groups.h"
#include "retained.h"

typedef struct {
    uint32_t entry;   /* the object */
    uint32_t first;   /* its groups stand side by side */
    uint32_t ngroups;
    uint32_t primary; /* group whose storages are nearest to the holder */
    uint32_t count;
    uint32_t branches; /* items of it that lead to the storages */
    uint32_t parts;    /* most that storages of one line part in */
    uint64_t bytes;
    int grows;        /* some site of its does, here */
    uint32_t began, ended; /* births of the first and the last of its storages */
    /* Others of its sort that were too many to be told singly: how many, and
     * what lies in them.  They are cut together with it. */
    uint32_t others, others_count;
    uint64_t others_bytes;
    uint64_t sort;    /* same way from the same root, same line */
    /* All of its sort: how many, births of the first and the last of their
     * storages, and how many different ones those have. */
    uint32_t sort_members, sort_began, sort_ended, sort_generations;
    int in_turn;      /* each of them was filled in a time of its own */
} ia_holder;

/* One of the others. */
typedef struct {
    uint32_t told;  /* index of the one that is told */
    uint32_t entry; /* the object */
} ia_other;

typedef struct {
    ia_holder *items; /* owned */
    uint32_t count;
    uint32_t left_out;
    ia_other *others; /* owned */
    uint32_t nothers, others_capacity;
    ia_cut *cuts; /* owned; group = index of the holder: see cutting.h */
    uint32_t ncuts, cuts_capacity;
} ia_holders;

/* Up to `most` of them, or IA_MAX_CUT_GROUPS.  A holder where no site grows is
 * left out: a loop variable holds the newest tensor of a site whose others are
 * kept elsewhere.  0, or -1 when memory is short. */
int ia_holders_find(const ia_walk *, const ia_groups *,
                    const ia_wanted *wanted, uint32_t most, ia_holders *);
void ia_holders_free(ia_holders *);

/* Of the types on the way from a root, and of that root. */
uint64_t ia_way_of(const ia_walk *, uint32_t entry);

#endif /* IA_HOLDERS_H */
