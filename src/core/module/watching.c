/* Functions of _core: watching begins and ends, and what happens meanwhile. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/ndarray.h"
#include "../base/read.h"
#include "../base/same.h"
#include "../ledger/arrays.h"
#include "../ledger/devices.h"
#include "../ledger/ledger.h"
#include "../ledger/libraries.h"
#include "../ledger/recurrence.h"
#include "../ledger/samples.h"
#include "../ledger/tensors.h"
#include "../steps/criterion.h"
#include "../steps/failure.h"
#include "../steps/garbage.h"
#include "../steps/steps.h"
#include "../steps/unseen.h"
#include "../holders/statement.h"
#include "../heap/own.h"
#include "../heap/turns.h"
#include "../recorder/recorder.h"
#include "api.h"
#include "device_view.h"
#include "methods.h"

#include <pthread.h>
#include <stdlib.h>

/* -- start and stop ------------------------------------------------------ */

static void
in_child(void)
{
    ia_active = 0;
    ia_arrays_silence();
    ia_journal_after_fork();
    ia_ledger_after_fork();
    ia_recurrence_after_fork();
    ia_recorder_after_fork();
    ia_collector_after_fork();
}

static PyObject *
start(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static int handles_fork;
    static char *names[] = {"every",    "warmup", "window", "manual",
                            "callback", "is_programs", NULL};
    ia_stepping_options o = {.every = 1, .warmup = 3, .window = 5};
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$IIIpOO:start", names,
                                     &o.every, &o.warmup, &o.window,
                                     &o.manual, &o.callback, &o.is_programs))
        return NULL;
    if (o.every == 0 || o.window < 2) {
        PyErr_SetString(PyExc_ValueError,
                        "every must be at least 1 and window at least 2");
        return NULL;
    }
    /* The lock is held over a fork, so that the child's ledger is whole. */
    if (!handles_fork &&
        pthread_atfork(ia_ledger_lock, ia_ledger_unlock, in_child) == 0)
        handles_fork = 1;
    if (o.callback == Py_None)
        o.callback = NULL;
    if (o.is_programs == Py_None)
        o.is_programs = NULL;
    Py_XINCREF(o.callback);
    Py_XINCREF(o.is_programs);
    ia_ledger_lock();
    ia_ledger_reset(o.warmup);
    ia_samples_reset();
    ia_criterion_reset(o.warmup, o.window);
    ia_stacks_forget_paths();
    ia_ledger_unlock();
    ia_code_watch(1);
    ia_devices_reset();
    ia_tensors_reset();
    ia_visits_forget_all();
    ia_turns_begin();
    ia_stepping_start(&o);
    Py_RETURN_NONE;
}

static PyObject *
stop(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_statement_end();
    ia_visits_forget_all();
    ia_stepping_stop();
    ia_code_watch(0);
    Py_RETURN_NONE;
}

static PyObject *
is_active(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(ia_active);
}

/* 0, or -1 with a TypeError. */
static int
expect_str(PyObject *op)
{
    if (PyUnicode_Check(op))
        return 0;
    PyErr_Format(PyExc_TypeError, "expected a str, not %.100s",
                 Py_TYPE(op)->tp_name);
    return -1;
}

/* A str as ia_text() has it: bytes, or NULL with an exception. */
static PyObject *
text_bytes(PyObject *text)
{
    if (expect_str(text) < 0)
        return NULL;
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
}

/* Strings of a tuple, which the list that is given back keeps alive; the
 * caller frees *out, also where that is NULL with an exception. */
static PyObject *
read_strings(PyObject *tuple, const char ***out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *kept = PyList_New(0);
    *out = calloc((size_t)n + 1, sizeof **out);
    if (*out == NULL && kept != NULL) {
        PyErr_NoMemory();
        Py_CLEAR(kept);
    }
    for (Py_ssize_t i = 0; kept != NULL && i < n; i++) {
        PyObject *bytes = text_bytes(PyTuple_GET_ITEM(tuple, i));
        if (bytes != NULL)
            (*out)[i] = PyBytes_AS_STRING(bytes);
        ia_list_add(&kept, bytes);
    }
    return kept;
}

static PyObject *
set_code(PyObject *self, PyObject *args)
{
    PyObject *libraries, *users, *own;
    const char **prefixes = NULL, **files = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!U:set_code", &PyTuple_Type, &libraries,
                          &PyTuple_Type, &users, &own))
        return NULL;
    PyObject *prefix_bytes = read_strings(libraries, &prefixes);
    PyObject *file_bytes =
        prefix_bytes != NULL ? read_strings(users, &files) : NULL;
    PyObject *own_bytes = file_bytes != NULL ? text_bytes(own) : NULL;
    int bad = own_bytes == NULL;
    if (!bad) {
        ia_ledger_lock();
        bad = ia_libraries_set(prefixes,
                               (size_t)PyTuple_GET_SIZE(libraries)) < 0 ||
              ia_libraries_except(files, (size_t)PyTuple_GET_SIZE(users)) <
                  0 ||
              ia_own_set_prefix(PyBytes_AS_STRING(own_bytes)) < 0;
        ia_ledger_unlock();
        if (bad)
            PyErr_NoMemory();
    }
    free(prefixes);
    free(files);
    Py_XDECREF(prefix_bytes);
    Py_XDECREF(file_bytes);
    Py_XDECREF(own_bytes);
    if (bad)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
is_library(PyObject *self, PyObject *arg)
{
    char buf[IA_FILE_NAME];
    (void)self;
    if (expect_str(arg) < 0)
        return NULL;
    return PyBool_FromLong(
        ia_file_is_library(ia_text(arg, buf, sizeof buf)));
}

static PyObject *
set_types(PyObject *self, PyObject *args)
{
    PyTypeObject *module, *optimizer;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:set_types", &PyType_Type, &module,
                          &PyType_Type, &optimizer))
        return NULL;
    ia_kinds_set_types(module, optimizer);
    Py_RETURN_NONE;
}

/* -- NumPy's arrays ------------------------------------------------------ */

static PyObject *
arrays_know(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (ia_ndarray_bind() < 0)
        return NULL;
    ia_kinds_forget();
    Py_RETURN_NONE;
}

static PyObject *
arrays_install(PyObject *self, PyObject *args)
{
    int in_place = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "|p:arrays_install", &in_place))
        return NULL;
    if (ia_ndarray_bind() < 0)
        return NULL;
    int result = ia_arrays_install(in_place);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *
arrays_uninstall(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    if (ia_arrays_uninstall() < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
arrays_installed(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyBool_FromLong(ia_arrays_installed());
}

/* -- events -------------------------------------------------------------- */

static PyObject *
step(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_stepping_event(IA_EVENT_MANUAL);
    Py_RETURN_NONE;
}

static PyObject *
pause_turns(PyObject *self, PyObject *arg)
{
    int on = PyObject_IsTrue(arg);
    (void)self;
    if (on < 0)
        return NULL;
    ia_recurrence_pause(on);
    Py_RETURN_NONE;
}

static PyObject *
optimizer_stepped(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n > 0)
        ia_stepping_optimizer(args[0]);
    Py_RETURN_NONE;
}

/* Which generation a run goes through.  From 3.14 on each run of the middle
 * one goes through a part of what is old. */
static int
generation_of(PyObject *info)
{
    PyObject *generation = ia_dict_value(info, "generation");
    if (generation == NULL || !PyLong_CheckExact(generation))
        return 0;
    long number = PyLong_AsLong(generation);
#if PY_VERSION_HEX >= 0x030E0000
    number += number > 0;
#endif
    return number < 0 ? 0 : number > IA_WHOLE ? IA_WHOLE : (int)number;
}

/* For gc.callbacks: what dies between start and stop was held by a cycle. */
static PyObject *
collector_event(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n < 1 || !PyUnicode_CheckExact(args[0]))
        Py_RETURN_NONE;
    if (PyUnicode_CompareWithASCIIString(args[0], "start") != 0) {
        ia_ledger_set_collecting(IA_NOT_COLLECTING);
        Py_RETURN_NONE;
    }
    int generation =
        n > 1 && PyDict_CheckExact(args[1]) ? generation_of(args[1]) : 0;
    int whole = generation == IA_WHOLE;
    ia_same_collecting(whole);
    ia_stepping_collected(generation);
    ia_ledger_set_collecting(whole ? IA_COLLECTING_ALL : IA_COLLECTING_YOUNG);
    Py_RETURN_NONE;
}

static PyObject *
set_phase(PyObject *self, PyObject *arg)
{
    unsigned long phase = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_ledger_lock();
    ia_ledger_set_phase((uint16_t)phase);
    ia_ledger_unlock();
    Py_RETURN_NONE;
}

static PyObject *
set_allowed(PyObject *self, PyObject *arg)
{
    unsigned long label = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLong(ia_ledger_set_allowed((uint16_t)label));
}

static PyObject *
note_same(PyObject *self, PyObject *op)
{
    (void)self;
    if (ia_same_note(op) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *
still_stands(PyObject *self, PyObject *arg)
{
    void *address = PyLong_AsVoidPtr(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(ia_same_stands((uintptr_t)address));
}

static PyObject *
set_ended(PyObject *self, PyObject *error)
{
    (void)self;
    if (error != Py_None && !PyExceptionInstance_Check(error)) {
        PyErr_SetString(PyExc_TypeError,
                        "set_ended() expects an exception or None");
        return NULL;
    }
    if (ia_frames_set_ended(error != Py_None ? error : NULL) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *
call_theirs(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError,
                        "call_theirs() expects something to call");
        return NULL;
    }
    return ia_call_theirs(args[0], args + 1, count - 1);
}

static PyObject *
depth_of_calls(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromLong(ia_depth_of_calls());
}

static PyObject *
lend_calls(PyObject *self, PyObject *number)
{
    (void)self;
    long n = PyLong_AsLong(number);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    ia_lend_calls((int)n);
    Py_RETURN_NONE;
}

static PyObject *
look_at(PyObject *self, PyObject *args)
{
    PyObject *tick;
    double within = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O|d", &tick, &within))
        return NULL;
    unsigned long at = PyLong_AsUnsignedLong(tick);
    if (PyErr_Occurred())
        return NULL;
    ia_stepping_look_at((uint32_t)at, within);
    Py_RETURN_NONE;
}

/* -- events made up by tests --------------------------------------------- */

static PyObject *
test_born(PyObject *self, PyObject *args)
{
    unsigned long long key;
    Py_ssize_t bytes;
    int device = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "Kn|i:_born", &key, &bytes, &device))
        return NULL;
    ia_api.storage_born((uintptr_t)key, (size_t)bytes, (uint16_t)device);
    Py_RETURN_NONE;
}

static PyObject *
test_died(PyObject *self, PyObject *arg)
{
    unsigned long long key = PyLong_AsUnsignedLongLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_ledger_died((uintptr_t)key);
    Py_RETURN_NONE;
}

static PyObject *
test_fail(PyObject *self, PyObject *arg)
{
    const char *what = PyUnicode_AsUTF8(arg);
    (void)self;
    if (what == NULL)
        return NULL;
    ia_fail("test", what);
    Py_RETURN_NONE;
}

DOC(start,
    "(*, every=1, warmup=3, window=5, manual=False, callback=None,\n"
    "      is_programs=None)",
    "Empty the ledger and begin to account; callback(step) is called at the\n"
    "boundaries where a look at the suspects is due.  An Exception that it\n"
    "raises ends the watch, unless is_programs(exception): that one is\n"
    "raised where the program goes on.");
DOC(stop, "()", "Stop accounting; what is known stays readable.");
DOC(is_active, "()", "Are births and deaths accounted for now?");
DOC(set_code, "(libraries, user_files, own)",
    "Path prefixes of library code, files that are the user's all the same,\n"
    "and the prefix of this package.");
DOC(is_library, "(file)", "Is this file library code, by set_code()?");
DOC(set_types, "(module, optimizer)",
    "The base classes of modules and optimizers.");
DOC(arrays_know, "()",
    "NumPy's arrays are known from now on; imports NumPy where nobody has.");
DOC(arrays_install, "(in_place=True)",
    "Account for the blocks of NumPy's arrays, too; False where this NumPy\n"
    "can't be watched. Not in place: in this thread's context alone.");
DOC(arrays_uninstall, "()",
    "End that: NumPy's table is as it was, its blocks leave the ledger.");
DOC(arrays_installed, "()", "Do NumPy's blocks come to the ledger?");
DOC(step, "()", "End the step by hand.");
DOC(pause_turns, "(on)",
    "What is made from now on is no turn of a loop of the program's; as often\n"
    "as that was said, it is to be taken back.");
DOC(optimizer_stepped, "(optimizer, args, kwargs)",
    "For register_optimizer_step_post_hook.");
DOC(collector_event, "(phase, info)", "For gc.callbacks.");
DOC(set_phase, "(number)", "Storages born from now on carry this phase.");
DOC(set_allowed, "(label)",
    "Storages born on this thread from now on are kept on purpose (0: not).\n"
    "Returns the label before.");
DOC(note_same, "(object)",
    "Notes where an object stands that takes no weak reference.");
DOC(still_stands, "(address)",
    "Was an object noted there, and no other one seen in its place?");
DOC(set_ended, "(error)",
    "Walks take the calls that the exception has ended for running ones; "
    "None:\n"
    "for ended.");
DOC(call_theirs, "(callable, *args)",
    "callable(*args), which is the program's: traced as without a look.");
DOC(depth_of_calls, "()",
    "Calls that this thread is in, of those that sys.setrecursionlimit()\n"
    "bounds; this one is among them on Python 3.11.");
DOC(lend_calls, "(n)",
    "So many of this thread's calls count no more; below 0: again.");
DOC(look_at, "(tick, within=0.0)",
    "Call back at that tick in any case, or at the first after so many\n"
    "seconds, whichever comes sooner; 0: not for that.");
DOC(recorder_arm,
    "(folder, names, *, events, sites, keep, interval, reserve, sources,\n"
    "             second_stage)",
    "Get everything ready to write a bundle below folder when memory runs\n"
    "out; names are those of the bundles that are there, oldest first.");
DOC(recorder_disarm, "()", "Let go of what recorder_arm() has got ready.");
DOC(recorder_write, "(reason, device=0, asked=0)",
    "Write a bundle now; its name, or None when nothing is armed.");
DOC(recorder_status, "()", "{armed, written, waiting, error}");
DOC(recorder_events, "()", "The ring's events, oldest first, as bytes.");
DOC(device_rules, "(max_split, divisions)",
    "How the devices' allocator was configured: bytes above which no block\n"
    "is cut, and its roundup_power2_divisions from 1 MiB up.");
DOC(device_follow, "(device, snapshot, seen)",
    "Account for a device of which the snapshot's blocks are alive; False\n"
    "where not exactly `seen` events of it came before: take another one.");
DOC(device_events, "(events)", "Take in events, for tests.");
DOC(devices, "()", "What is known of each device, as a list of dicts.");

PyMethodDef ia_watching_methods[] = {
    {"start", FAST(start), METH_VARARGS | METH_KEYWORDS, start_doc},
    {"stop", stop, METH_NOARGS, stop_doc},
    {"is_active", is_active, METH_NOARGS, is_active_doc},
    {"set_code", set_code, METH_VARARGS, set_code_doc},
    {"is_library", is_library, METH_O, is_library_doc},
    {"set_types", set_types, METH_VARARGS, set_types_doc},
    {"arrays_know", arrays_know, METH_NOARGS, arrays_know_doc},
    {"arrays_install", arrays_install, METH_VARARGS, arrays_install_doc},
    {"arrays_uninstall", arrays_uninstall, METH_NOARGS,
     arrays_uninstall_doc},
    {"arrays_installed", arrays_installed, METH_NOARGS,
     arrays_installed_doc},
    {"step", step, METH_NOARGS, step_doc},
    {"optimizer_stepped", FAST(optimizer_stepped), METH_FASTCALL,
     optimizer_stepped_doc},
    {"collector_event", FAST(collector_event), METH_FASTCALL,
     collector_event_doc},
    {"set_phase", set_phase, METH_O, set_phase_doc},
    {"set_allowed", set_allowed, METH_O, set_allowed_doc},
    {"note_same", note_same, METH_O, note_same_doc},
    {"still_stands", still_stands, METH_O, still_stands_doc},
    {"pause_turns", pause_turns, METH_O, pause_turns_doc},
    {"set_ended", set_ended, METH_O, set_ended_doc},
    {"call_theirs", FAST(call_theirs), METH_FASTCALL, call_theirs_doc},
    {"depth_of_calls", depth_of_calls, METH_NOARGS, depth_of_calls_doc},
    {"lend_calls", lend_calls, METH_O, lend_calls_doc},
    {"look_at", look_at, METH_VARARGS, look_at_doc},
    {"recorder_arm", FAST(ia_recorder_arm), METH_VARARGS | METH_KEYWORDS,
     recorder_arm_doc},
    {"recorder_disarm", ia_recorder_disarm, METH_NOARGS,
     recorder_disarm_doc},
    {"recorder_write", ia_recorder_write, METH_VARARGS, recorder_write_doc},
    {"recorder_status", ia_recorder_status, METH_NOARGS,
     recorder_status_doc},
    {"recorder_events", ia_recorder_events, METH_NOARGS,
     recorder_events_doc},
    {"device_rules", ia_device_rules_method, METH_VARARGS,
     device_rules_doc},
    {"device_follow", ia_device_follow_method, METH_VARARGS,
     device_follow_doc},
    {"device_events", ia_device_events_method, METH_O, device_events_doc},
    {"devices", ia_devices_method, METH_NOARGS, devices_doc},
    {"_born", test_born, METH_VARARGS, NULL},
    {"_died", test_died, METH_O, NULL},
    {"_fail", test_fail, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
