/* Which variable of a library leads to memory that no Python object leads to.
 *
 * A conservative search, backwards: which piece of malloc's memory has an
 * address in it that lies in the block, which piece one that lies in that,
 * and so on, until the address stands in a writable segment of a library.
 * Nothing is followed that could fault, nothing is changed.  A word that looks
 * like an address may be a number, and a piece that was freed may have one
 * still: what counts is a variable that half of the blocks lead to, and that
 * has a name.  Needs the GIL, for it has one set of tables.
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
    uint32_t blocks; /* that it leads to, of those that were asked for */
} ia_owner;

/* How many variables were found, or -1 when memory is short.  `skip`: blocks
 * that hold numbers and no addresses, ordered. */
int ia_owners_find(const ia_block *, uint32_t count, const ia_block *skip,
                   size_t nskip, ia_owner out[IA_MOST_OWNERS]);

#endif /* IA_OWNERS_H */
