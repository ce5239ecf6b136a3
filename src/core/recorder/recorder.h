/* The flight recorder: when memory runs out, a bundle is written first.
 *
 * While it is armed the ledger keeps its last events in a ring, and all the
 * memory that writing takes is there already, touched.
 *
 * Locks: the writer's lock before the ledger's.  Neither the GIL nor any
 * other lock is taken under them.
 */
#ifndef IA_RECORDER_H
#define IA_RECORDER_H

#include "../base/core_api.h"

#include <stddef.h>
#include <stdint.h>

/* Bundles that can be told apart to remove the oldest. */
#define IA_MAX_KEPT 64

/* Memory ran out on a device (device type << 8 | index) when `asked` more
 * bytes were wanted; 0 where that is not known.
 *
 * To be called where the failure is noticed: on any thread, with or without
 * the GIL, under any lock but the ledger's.  It allocates nothing, calls
 * nothing of Python's or torch's, never throws and leaves errno as it was.
 * It may take some milliseconds, as it waits for the disk.  It returns at
 * once when no recorder is armed, when another thread is writing a bundle,
 * and when the last bundle is younger than the interval. */
void ia_recorder_oom(uint16_t device, size_t asked);

/* In the child of a fork: off. */
void ia_recorder_after_fork(void);

/* For the method table. */
PyObject *ia_recorder_arm(PyObject *, PyObject *args, PyObject *kwargs);
PyObject *ia_recorder_disarm(PyObject *, PyObject *);
PyObject *ia_recorder_write(PyObject *, PyObject *args);
PyObject *ia_recorder_status(PyObject *, PyObject *);
PyObject *ia_recorder_events(PyObject *, PyObject *);

#endif /* IA_RECORDER_H */
