/* Whether we watch, and what went wrong when we no longer do. */
#ifndef IA_FAILURE_H
#define IA_FAILURE_H

#include <stdatomic.h>

/* Nonzero while hooks report; read by any thread, changed under the GIL. */
extern atomic_int ia_active;

/* Switches everything off and warns once; the first message is kept for the
 * report.  Any thread, with or without the GIL. */
void ia_fail(const char *where, const char *what);
/* The same with the exception that is set (GIL), which is cleared. */
void ia_fail_with_exception(const char *where);
/* The message, or NULL. */
const char *ia_failure(void);
void ia_failure_forget(void);

#endif /* IA_FAILURE_H */
