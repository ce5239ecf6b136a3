/* A holder as a visit finds it, and what is kept of that for the next one: how
 * much is in it, which items, which graph.  Addresses, compared and never
 * followed.
 */
#ifndef IA_SEEN_H
#define IA_SEEN_H

#include "items.h"

typedef enum {
    IA_PATH_BROKEN,   /* some link does not hold any more */
    IA_PATH_INTACT,
    IA_PATH_UNKNOWN,  /* forgotten, or its root is nothing to start from */
} ia_path_state;

typedef struct {
    ia_path_state state;
    Py_ssize_t length;   /* items; -1 where the holder is no container */
    Py_ssize_t names;    /* attributes of one that is no container, or -1 */
    int linked;          /* a pair in front of the one of visits before */
    uintptr_t value;     /* what the last link leads to */
    uintptr_t first;     /* the item that a container shows first, or 0 */
    uintptr_t eldest;    /* the one that has been in it for longest, or 0 */
    size_t bytes;        /* memory of one that is a tensor or array, or 0 */
    void *graph;         /* node behind a holder that is a tensor, or NULL */
    /* Whether the graph of a tensor that is another than at the visit before
     * leads back to that one's; IA_UNKNOWN where there was none before. */
    enum { IA_UNKNOWN, IA_LEADS_BACK, IA_MADE_ANEW } recurs;
} ia_visit;

/* A holder at the last visit. */
typedef struct {
    ia_item eldest;
    uintptr_t newest;  /* item of a list */
    Py_ssize_t length;
    int linked; /* a pair that leads to the one before it, and so on */
    void *node; /* behind a tensor */
    uint64_t sequence;
    uintptr_t parted; /* a tensor that has its memory in parts */
    size_t bytes;     /* of these */
    uint32_t writes;  /* to it */
} ia_seen;

/* ``still``: within a walk's brackets, where no other thread changes what only
 * the framework knows. */
void ia_read_holder(ia_seen *, PyObject *, int is_container, int still,
                    ia_visit *);

/* Three questions to a container of the same type in its place. */
int ia_has_its_eldest(const ia_seen *, PyObject *container);
/* Is it that of the last visit, made anew?  With more in it, it has its eldest
 * item, which is alive as long as one of the two has it; a list that was cut
 * has its newest. */
int ia_stands_in(const ia_seen *, PyObject *container);
/* Does it lead on to that of the last visit, which lay at `before`, as
 * `(value, pairs)` does, by the same index of each?  That one is alive, then. */
int ia_is_in_front(const ia_seen *, PyObject *pair, uintptr_t before);

#endif /* IA_SEEN_H */
