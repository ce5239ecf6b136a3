/* From storages that were reached to the objects that keep them. */
#ifndef IA_GROUPS_H
#define IA_GROUPS_H

#include "../heap/walk.h"
#include "../ledger/journal.h"

/* Storages of one site that hang on one holder. */
typedef struct {
    uint32_t holder;  /* entry */
    uint32_t site;
    /* Storage: on the branch that more than half of the holder's hang on, if
     * there is one; there the nearest to the holder, largest, newest. */
    uint32_t example;
    uint32_t below;   /* edges from the holder down to it */
    int on_branch;    /* it is one of those */
    uint32_t depth;   /* edges down to the nearest of all */
    uint32_t count;
    uint32_t generations;
    uint32_t births; /* the first of those, in the list of all groups' */
    uint32_t parts; /* of what they part by: see IA_WANTED_EACH */
    uint32_t first_generation; /* by the clock that was asked for */
    uint32_t last_generation;
    uint64_t bytes;
    int purpose; /* ia_purpose of all its storages, UNKNOWN where it differs */
    uint32_t branches; /* items of the holder that its storages hang on */
    uint32_t objects;  /* tensors on it that show them */
} ia_group;

typedef struct {
    ia_group *items; /* owned; ordered by holder */
    uint32_t count;
    uint32_t *births; /* owned; the different ones of each, in order */
    uint32_t nbirths;
    uint32_t *path; /* owned; entries that a target hangs on, in order */
    uint32_t npath;
} ia_groups;

/* Which storages are asked about. */
typedef struct {
    uint8_t *of_site;  /* owned; what of_site[site] says: */
#define IA_WANTED 1         /* storages born at `since` or later */
#define IA_WANTED_ANY_AGE 2 /* all of them */
/* All of them, and they part by themselves: every step makes all of them
 * anew, and one more, so that generations tell nothing. */
#define IA_WANTED_EACH 3
/* All of them, and none parts from another: there are no more of them, each
 * is made anew, and larger, in its place. */
#define IA_WANTED_ALONE 4
    uint32_t nsites;
    ia_clock clock; /* that births are compared by */
    uint32_t since; /* first position, or tick, that counts */
    uint32_t now;   /* tick that ended last */
} ia_wanted;

static inline uint32_t
ia_birth_by(ia_clock clock, uint32_t position, uint32_t generation)
{
    return clock == IA_BY_POSITION ? position : generation;
}

static inline int
ia_is_any_age(const ia_wanted *wanted, uint32_t site)
{
    return site < wanted->nsites &&
           wanted->of_site[site] >= IA_WANTED_ANY_AGE;
}

static inline int
ia_is_wanted(const ia_wanted *wanted, uint32_t site, uint32_t birth)
{
    if (site >= wanted->nsites || !wanted->of_site[site])
        return 0;
    return ia_is_any_age(wanted, site) || birth >= wanted->since;
}

/* Groups the wanted storages that the walk reached.  What no proper root
 * reaches and was born in that step or since is passed over: the running call,
 * whose temporaries nobody sees, still has it in hand; so is what that call is
 * known to have.  0, or -1 when memory is short. */
int ia_groups_find(const ia_walk *, const ia_wanted *, ia_groups *);
void ia_groups_free(ia_groups *);

#endif /* IA_GROUPS_H */
