/* Calls that wait: coroutines that a library runs, between its turns. */
#ifndef IA_WAITING_H
#define IA_WAITING_H

#include "../ledger/frames.h"

#define IA_MOST_WAITING 64

/* Those that this call has in its variables, where it is a library's, and what
 * they await, the outer before the inner; how many.  asyncio.run() has the one
 * that it was given.  Needs the GIL. */
int ia_waiting_calls(ia_frame *, ia_frame *calls[IA_MOST_WAITING]);

#endif /* IA_WAITING_H */
