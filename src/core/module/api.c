/* What the capsule hands to the modules that know a framework. */

#include "../base/compat.h"
#include "../base/device_name.h"
#include "../base/kinds.h"
#include "../ledger/devices.h"
#include "../ledger/frames.h"
#include "../ledger/ledger.h"
#include "../ledger/recurrence.h"
#include "../ledger/sites.h"
#include "../ledger/tensors.h"
#include "../steps/failure.h"
#include "../steps/steps.h"
#include "../steps/sweep.h"
#include "../recorder/recorder.h"
#include "api.h"

static void
api_storage_born(uintptr_t key, size_t bytes, uint16_t device)
{
    if (ia_active)
        ia_ledger_born(key, bytes, device);
}

/* Out of memory is passed on to the recorder with none of our locks held. */
static void
api_device_event(const ia_device_event *e)
{
    if (!ia_active)
        return;
    ia_devices_event(e);
    if (e->action == IA_DEVICE_OOM)
        ia_recorder_oom((uint16_t)e->device, (size_t)e->bytes);
}

static void
api_backward_begins(void)
{
    ia_place place;
    if (!ia_active || !ia_places_follows_nodes())
        return;
    ia_place_capture(&place);
    ia_ledger_lock();
    ia_places_note_backward(ia_place_intern(&place));
    ia_ledger_unlock();
}

static int
api_active(void)
{
    return ia_active;
}

static void
api_tensor_born(PyObject *op)
{
    if (!ia_active)
        return;
    /* Before anybody knows of a tensor that is not made yet. */
    if (ia_recurrence_waits_long())
        ia_stepping_come_instead();
    ia_tensors_born(op);
    if (ia_stacks_sweep_is_due())
        ia_sweep(); /* here too: some programs have no steps */
}

static int
api_register(const ia_framework *framework)
{
    if (framework->version != IA_API_VERSION) {
        PyErr_Format(PyExc_ImportError,
                     "impactarbiter._core speaks version %d of its "
                     "interface, the framework module %d: build both anew",
                     IA_API_VERSION, framework->version);
        return -1;
    }
    if (ia_frameworks_add(framework) < 0) {
        PyErr_Format(PyExc_ImportError,
                     "impactarbiter._core takes %d frameworks at a time",
                     IA_MOST_FRAMEWORKS);
        return -1;
    }
    ia_kinds_forget();
    return 0;
}

const ia_core_api ia_api = {
    .version = IA_API_VERSION,
    .storage_born = api_storage_born,
    .storage_died = ia_ledger_died,
    .storage_left = ia_ledger_left,
    .storage_resized = ia_ledger_resized,
    .storage_renamed = ia_ledger_renamed,
    .device_event = api_device_event,
    .device_followed = ia_devices_followed,
    .backward_begins = api_backward_begins,
    .active = api_active,
    .collecting = ia_ledger_collecting,
    .tensor_born = api_tensor_born,
    .tensor_died = ia_tensors_died,
    .event = ia_stepping_event,
    .call_ends = ia_stepping_call_ends,
    .is_running = ia_frame_runs,
    .register_framework = api_register,
    .device_named = ia_device_named,
    .fail = ia_fail,
    .recorder_oom = ia_recorder_oom,
};
