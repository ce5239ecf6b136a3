/* Sweeps: stacks and sites that nothing names any more are dropped.
 *
 * Every table that keeps a stack's or a site's id is listed here, with what
 * it marks; what knows things of a site by its id, with how it forgets them.
 * A table that is not listed keeps numbers (sites.h).
 */
#ifndef IA_SWEEP_H
#define IA_SWEEP_H

/* Sites of which nothing is alive and that no stack names, but whose past is
 * remembered: lines that run once an epoch are judged by how long theirs live.
 * Beyond it those go whose last birth is the oldest; some 2 MiB. */
#define IA_IDLE_SITES 2048

/* Sweeps where it is due.  Needs the GIL, and takes the ledger's lock: nowhere
 * up the stack may somebody be between two uses of an id without a pin. */
void ia_sweep(void);

#endif /* IA_SWEEP_H */
