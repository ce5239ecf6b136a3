/* References as the walk keeps them: an address, and in its low bits what it
 * points to.
 */
#ifndef IA_REFS_H
#define IA_REFS_H

#include <stddef.h>
#include <stdint.h>

#define IA_TAG_OBJECT ((uintptr_t)0)
#define IA_TAG_NODE ((uintptr_t)1)  /* autograd node */
#define IA_TAG_FRAME ((uintptr_t)2) /* running frame, a root */
#define IA_TAG_CROWD ((uintptr_t)3) /* ia_crowd, a root */
/* A storage's key: of a tensor in C++ that Python has no object of, where
 * several hang on one object.  It leads nowhere. */
#define IA_TAG_MEMORY ((uintptr_t)4)
#define IA_TAG_MASK ((uintptr_t)7)
#define IA_TAG(ref) ((ref) & IA_TAG_MASK)
#define IA_ADDRESS(ref) ((ref) & ~IA_TAG_MASK)

struct _typeobject;
/* A type's name without its module; it always ends. */
void ia_type_name(struct _typeobject *, char *buf, size_t size);
/* Short name of what a ref points to: "list", "AddmmBackward0". */
void ia_ref_type_name(uintptr_t ref, char *buf, size_t size);

#endif /* IA_REFS_H */
