/* Which variable of a library leads to memory that no Python object leads to,
 * or which Python object has the C++ object in it that does.
 *
 * A conservative search, backwards: which piece of malloc's memory has an
 * address in it that lies in the block, which piece one that lies in that,
 * and so on, until the address stands in a writable segment of a library.
 * Nothing is followed that could fault, nothing is changed.  A word that looks
 * like an address may be a number, and a piece that was freed may have one
 * still: what counts is a variable that half of the blocks lead to, and that
 * has a name.  Where a Python object is found as well there are two answers,
 * and none is given, but for a variable that has the container itself.  Needs the GIL, for it has one set of tables.
 */
#ifndef IA_OWNERS_H
#define IA_OWNERS_H

#include "blocks.h"

/* Blocks that are searched for at a time: a word of bits. */
#define IA_MOST_BLOCKS 8
/* Variables that are told. */
#define IA_MOST_OWNERS 3

typedef struct {
    char library[256]; /* the file's path */
    char symbol[256];
    size_t body; /* place among the bodies, or IA_NO_BODY: a variable */
    uint32_t blocks; /* that it leads to, of those that were asked for */
} ia_owner;

#define IA_NO_BODY SIZE_MAX

typedef struct {
    const ia_block *blocks; /* whose owner is searched for */
    uint32_t count;
    const ia_block *numbers; /* no addresses stand there; ordered */
    size_t nnumbers;
    const ia_block *bodies; /* of Python objects that wrap C++ ones */
    size_t nbodies;
} ia_unowned;

/* How many owners were found, or -1 when memory is short.  IA_UNREAD: none, and
 * not all of the process's memory was read. */
#define IA_UNREAD (-2)
int ia_owners_find(const ia_unowned *, ia_owner out[IA_MOST_OWNERS]);

#endif /* IA_OWNERS_H */
