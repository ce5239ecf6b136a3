/* One breadth-first pass from the roots over everything that holds.
 *
 * Forward over tp_traverse, and through ia_framework where that shows
 * nothing.  Visited is one bit per 16 bytes of address; the queue keeps an
 * object and the index of what it was reached from, so a path is read back
 * along the parents.  Needs the GIL throughout, runs no Python code, creates
 * no Python object and takes no reference.
 */
#ifndef IA_WALK_H
#define IA_WALK_H

#include "../base/bitmap.h"
#include "../base/kinds.h"
#include "../base/ptrmap.h"
#include "classes.h"
#include "crossings.h"
#include "passing.h"
#include "reached.h"
#include "refs.h"
#include "root.h"

typedef struct {
    uintptr_t ref;
    uint32_t parent; /* IA_NO_ENTRY for a root */
    uint32_t root;   /* number of the root, for a root; else unused */
} ia_entry;

/* A reference that is followed when all others have been: of a bound method,
 * of a name that does not last, of an optimizer, or into the autograd graph. */
typedef struct {
    uintptr_t ref; /* with tag */
    uint32_t parent;
} ia_put_off;

/* In which order they are followed: what a method is bound to lasts as long
 * as the method, and what has a name goes by it before it goes by the graph. */
typedef enum {
    IA_TURN_BOUND,
    IA_TURN_NODES,
    IA_TURN_OTHERS,
    IA_TURNS,
} ia_turn;

/* Those of one turn; what is before `next` has been followed. */
typedef struct {
    ia_put_off *items; /* owned */
    uint32_t next, count, capacity;
} ia_put_offs;

/* A reference that the walk must not follow.  With child 0 the parent is
 * taken as empty; with parent 0 the child is no root. */
typedef struct {
    uintptr_t parent; /* ref with tag */
    uintptr_t child;  /* ref with tag */
    uint32_t group;   /* cuts that are made together, see retained.c */
    uint32_t entry;   /* of the parent, else of the child */
} ia_cut;

#define IA_MARK_KEPT UINT32_MAX /* reached with all cuts made */
#define IA_MARK_SHARED (UINT32_MAX - 1) /* by passes of two stamps, or more */

/* Marks of a second pass, one per storage of the first. */
typedef struct {
    uint32_t *of_storage; /* owned by retained.c */
    uint32_t limit;       /* storages of the first pass */
    uint32_t stamp;       /* what this pass writes */
} ia_marks;

/* What several passes over the same rest have met: the second pass follows a
 * thing once more, later ones do not. */
typedef struct {
    ia_bitmap *any;    /* by some pass before */
    ia_bitmap *shared; /* by two */
} ia_claims;

/* A processor has some ten reads under way at a time; more wait in line. */
#define IA_MOST_AWAITED 32

typedef struct ia_walk ia_walk;
struct ia_walk {
    ia_sink sink; /* first: the framework calls back through it */
    ia_bitmap *seen;
    const ia_bitmap *below; /* second set, consulted first; may be NULL */
    ia_claims *claims; /* borrowed; NULL where each pass stands alone */
    ia_entry *queue;  /* owned */
    uint32_t count, capacity, head;
    uint32_t parent; /* entry that is being expanded */
    ia_passing_codes passing; /* of frames and modules */
    ia_put_offs put_off[IA_TURNS];
    int puts_off; /* somebody comes back for what is put off */
    ia_classes classes; /* those of libraries, where these come later */
    int classes_wait; /* it comes to the libraries later, or never */
    int libraries; /* it is among what libraries' modules lead to */
    /* Borrowed: notes, or has noted, how these lead to what was met before
     * them; NULL where nobody asks. */
    ia_crossings *crossings;
    ia_storages *storages; /* borrowed; marks what is reached */
    const ia_roots *roots; /* borrowed */
    /* Entries and roots before the walk went on to what no root reaches; all
     * of them when it did not. */
    uint32_t rooted_entries, rooted_roots;
    uint32_t claimed_entries; /* before what is in a running call's hands */
    const ia_cut *cuts; /* borrowed; those of one parent side by side */
    uint32_t ncuts;
    ia_ptrmap cut_of; /* parent ref -> its first cut */
    uint32_t first_cut; /* of what is being expanded, or IA_PTRMAP_NONE */
    ia_marks *marks;  /* borrowed; NULL in a first pass */
    /* Called for every reference to an object, also to one that was seen
     * before; NULL where nobody asks. */
    void (*on_reference)(ia_walk *, PyObject *, void *);
    void *on_reference_arg;
    /* References of what is being expanded, on their way from memory. */
    PyObject *awaited[IA_MOST_AWAITED];
    uint32_t nawaited;
    struct ia_tally *tally; /* borrowed; counts what leads nowhere, or NULL */
    int memory_alone; /* what leads to none need not be met */
    int graph;        /* the framework's objects stand still: see walk_begin */
    int failed;       /* memory was short: the answer is incomplete */
    uint64_t nodes;
};

/* -- cuts.c: what it must not follow -- */

/* Orders cuts by parent, and those of one parent by child. */
void ia_cuts_order(ia_cut *, uint32_t count);
/* The cuts, ordered by parent, must outlive the walk.  0 or -1 (memory). */
int ia_walk_set_cuts(ia_walk *, const ia_cut *, uint32_t count);
uint32_t ia_cuts_find(const ia_walk *, uintptr_t parent);
/* Number of the first cut at a parent, 0 for the roots. */
static inline uint32_t
ia_cuts_at(const ia_walk *w, uintptr_t parent)
{
    return w->ncuts == 0 ? IA_PTRMAP_NONE : ia_cuts_find(w, parent);
}

/* Whether one of the parent whose first cut this is leads to the child. */
int ia_cuts_have(const ia_walk *, uint32_t first, uintptr_t child);
/* The same of what is being expanded. */
static inline int
ia_walk_is_cut(const ia_walk *w, uintptr_t child)
{
    return w->first_cut != IA_PTRMAP_NONE &&
           ia_cuts_have(w, w->first_cut, child);
}

/* -- memory.c: what it notes of storages -- */

/* A storage, as an ia_sink has it told. */
int ia_walk_meet(ia_sink *, const ia_storage *, ia_edge_kind,
                 const char *name, Py_ssize_t index);
/* A second pass has come to a storage of the first. */
void ia_walk_mark(const ia_walk *, uint32_t storage);
/* Marks the storages that a first pass reached by these entries. */
void ia_walk_keep(const ia_walk *, uint32_t first, uint32_t end);

/* -- walk.c -- */

/* 0, or -1 when memory is short. */
int ia_walk_init(ia_walk *, ia_storages *, const ia_roots *);
void ia_walk_free(ia_walk *);
/* Marks as seen without following. */
void ia_walk_hide(ia_walk *, void *address);
void ia_walk_seed(ia_walk *, uintptr_t ref, uint32_t root);
/* A seed that the walk may still meet: how a cycle finds its way home. */
void ia_walk_seed_unmarked(ia_walk *, uintptr_t ref, uint32_t root);
/* Expands the next entry; until the queue is empty. */
void ia_walk_step(ia_walk *);
void ia_walk_run(ia_walk *);
/* The same for what was put off so far: what methods are bound to, the graph
 * from what lasts, and then what names that do not last lead to. */
void ia_walk_run_put_off(ia_walk *);
/* Adds an entry that is not expanded; IA_NO_ENTRY when memory is short. */
uint32_t ia_walk_append(ia_walk *, uintptr_t ref, uint32_t parent);
/* The root entry in whose tree an entry lies. */
uint32_t ia_walk_root(const ia_walk *, uint32_t entry);
/* Follows one reference as if the entry `parent` had it. */
void ia_walk_follow(ia_walk *, uintptr_t ref, uint32_t parent);
/* Expands one thing; its children land in the queue. */
void ia_walk_expand(ia_walk *, uintptr_t ref);
/* tp_traverse; nothing for an object of the framework's while another thread
 * may be changing it, for this too reads what it holds. */
void ia_walk_traverse(const ia_walk *, PyObject *, visitproc, void *arg);

#endif /* IA_WALK_H */
