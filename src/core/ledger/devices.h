/* Devices whose allocator reports to us: their blocks, and the ledger's rows
 * of what is allocated on them.
 *
 * Events come under the allocator's own lock, from any thread, often without
 * the GIL.  The ledger's lock guards what is here.  It is a leaf: between
 * ia_ledger_lock() and ia_ledger_unlock() nothing is called but malloc and
 * reads of memory, so it can't be waited for by anybody who waits for us.
 */
#ifndef IA_DEVICES_H
#define IA_DEVICES_H

#include "../base/core_api.h"

/* One event of a device's allocator; nothing while we don't watch, nor for a
 * device that is not followed.  Out of memory is passed on to the recorder,
 * with none of our locks held. */
void ia_devices_event(const ia_device_event *);
/* Is every block of this device's allocator reported to us? */
int ia_devices_followed(uint16_t device);
/* Forgets all devices. */
void ia_devices_reset(void);
/* In bytes; takes the lock. */
size_t ia_devices_bytes(void);

/* Functions of _core, in device_view.c. */
PyObject *ia_device_rules_method(PyObject *, PyObject *);
PyObject *ia_device_follow_method(PyObject *, PyObject *);
PyObject *ia_device_events_method(PyObject *, PyObject *);
PyObject *ia_devices_method(PyObject *, PyObject *);

#endif /* IA_DEVICES_H */
