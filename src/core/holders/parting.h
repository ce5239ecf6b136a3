/* Where generations part: the object on a storage's path that holds it.
 *
 * The holder is the object whose branches lead to storages of the most
 * different steps.  A list of losses has one branch a step; a linked list or a
 * graph that never ends parts in two at every link, and its holder is the link
 * that the root is nearest to.
 */
#ifndef IA_PARTING_H
#define IA_PARTING_H

#include "../heap/walk.h"

/* A storage that is asked about. */
typedef struct {
    uint32_t holder, site, generation, storage;
    uint32_t part; /* branches are told apart by it */
    int alone;     /* or not at all: the storage stands for itself */
} ia_member;

/* What hangs on one branch: its first and last part, and how many parts are
 * told apart in it. */
typedef struct {
    uint32_t oldest, newest, score;
    uint32_t low, high; /* ids of the lines that made it */
    int nested;    /* something in there parts them, and it is no tensor */
    int container;
    int owner; /* an object that is neither a container nor a value */
    uint32_t count; /* targets in there */
} ia_stretch;

/* What is known of each entry on the paths; arrays are owned.  Nothing parts
 * what stands for itself: below an entry, it is not there. */
typedef struct {
    uint32_t *path;   /* entries that lead to a target, in order */
    uint32_t npath;
    uint32_t *own;    /* part + 1 of a storage at the entry itself */
    uint32_t *newest; /* part + 1 below the entry, 0 = none */
    uint32_t *oldest; /* likewise */
    uint32_t *low;    /* site + 1 below the entry: the lowest, */
    uint32_t *high;   /* and the highest */
    uint32_t *score;  /* branches of different parts */
    uint32_t *within; /* those of its containers, where none is a holder */
    uint32_t *level;  /* whether its containers, or it, are the holders */
    uint32_t *run;    /* links of a chain down to this entry */
    uint32_t *head;   /* first link of that chain */
    uint32_t *repeats; /* the next link is of the same type */
    uint32_t *longest; /* of the chains whose first link it is */
    uint32_t *count;   /* targets at the entry, and below it */
    uint32_t *best;   /* holder of what hangs here */
    uint32_t *weight; /* how telling it is */
    ia_stretch *branch;  /* scratch: one parent's branches */
    uint32_t *root;   /* where the way to the entry starts */
    uint32_t *above;  /* what the graph that the entry is a node of hangs on */
    uint32_t *depth;  /* below the root */
    int dated;        /* parts are births, none is a storage by itself */
} ia_parting;

/* Of what the members' storages hang on; 0, or -1 when memory is short.  Freed
 * in any case by ia_parting_free(). */
int ia_parting_find(const ia_walk *, const ia_member *, uint32_t n,
                    ia_parting *);
void ia_parting_free(ia_parting *);

/* Is the entry what an instance, a class or a function has as its dict? */
int ia_is_instance_dict(const ia_walk *, uint32_t entry);
/* Is the entry a list, dict, set, deque or tuple (and no __dict__)? */
int ia_entry_is_container(const ia_walk *, uint32_t entry);

#endif /* IA_PARTING_H */
