/* The functions of impactarbiter._core: arguments in, plain values out. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/process.h"
#include "../ledger/arrays.h"
#include "../ledger/devices.h"
#include "../ledger/frames.h"
#include "../ledger/intervals.h"
#include "../ledger/ledger.h"
#include "../ledger/libraries.h"
#include "../ledger/sites.h"
#include "../ledger/tensors.h"
#include "../steps/criterion.h"
#include "../steps/failure.h"
#include "../steps/optimizers.h"
#include "../steps/steps.h"
#include "../holders/statement.h"
#include "../heap/roots.h"
#include "../answers/census.h"
#include "../answers/describe.h"
#include "../answers/diagnosis.h"
#include "../answers/explain.h"
#include "../recorder/recorder.h"
#include "api.h"
#include "device_view.h"
#include "methods.h"
#include "snapshot.h"

#include <pthread.h>
#include <stdlib.h>

/* -- start and stop ------------------------------------------------------ */

static void
in_child(void)
{
    ia_active = 0;
    ia_arrays_silence();
    ia_ledger_after_fork();
    ia_recorder_after_fork();
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
    ia_criterion_reset(o.warmup, o.window);
    ia_stacks_forget_paths();
    ia_ledger_unlock();
    ia_code_watch(1);
    ia_devices_reset();
    ia_tensors_reset();
    ia_visits_forget_all();
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

static int
read_strings(PyObject *list, const char ***out, size_t *n)
{
    PyObject *fast = PySequence_Fast(list, "a sequence of str is expected");
    if (fast == NULL)
        return -1;
    *n = (size_t)PySequence_Fast_GET_SIZE(fast);
    *out = calloc(*n + 1, sizeof **out);
    int bad = *out == NULL;
    for (size_t i = 0; !bad && i < *n; i++) {
        /* The tuple that holds the strings outlives the call. */
        (*out)[i] = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(fast, i));
        bad = (*out)[i] == NULL;
    }
    Py_DECREF(fast);
    if (bad && !PyErr_Occurred())
        PyErr_NoMemory();
    return bad ? -1 : 0;
}

static PyObject *
set_code(PyObject *self, PyObject *args)
{
    PyObject *libraries, *users;
    const char *own, **prefixes = NULL, **files = NULL;
    size_t nprefixes, nfiles;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!s:set_code", &PyTuple_Type, &libraries,
                          &PyTuple_Type, &users, &own))
        return NULL;
    int bad = read_strings(libraries, &prefixes, &nprefixes) < 0 ||
              read_strings(users, &files, &nfiles) < 0;
    if (!bad) {
        ia_ledger_lock();
        bad = ia_libraries_set(prefixes, nprefixes) < 0 ||
              ia_libraries_except(files, nfiles) < 0 ||
              ia_roots_set_own(own) < 0;
        ia_ledger_unlock();
        if (bad)
            PyErr_NoMemory();
    }
    free(prefixes);
    free(files);
    if (bad)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
is_library(PyObject *self, PyObject *arg)
{
    (void)self;
    const char *file = PyUnicode_AsUTF8(arg);
    if (file == NULL)
        return NULL;
    ia_ledger_lock();
    int library = ia_library_has(file);
    ia_ledger_unlock();
    return PyBool_FromLong(library);
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
arrays_install(PyObject *self, PyObject *args)
{
    int in_place = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "|p:arrays_install", &in_place))
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
optimizer_stepped(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n > 0)
        ia_stepping_optimizer(args[0]);
    Py_RETURN_NONE;
}

/* For gc.callbacks: what dies between start and stop was held by a cycle. */
static PyObject *
collector_event(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    if (n > 0 && PyUnicode_CheckExact(args[0]))
        ia_ledger_set_collecting(
            PyUnicode_CompareWithASCIIString(args[0], "start") == 0);
    Py_RETURN_NONE;
}

static PyObject *
set_phase(PyObject *self, PyObject *arg)
{
    unsigned long phase = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_ledger_set_phase((uint16_t)phase);
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
look_at(PyObject *self, PyObject *arg)
{
    unsigned long at = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_stepping_look_at((uint32_t)at);
    Py_RETURN_NONE;
}

/* -- what is known ------------------------------------------------------- */

static PyObject *
settle(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_stepping_settle();
    Py_RETURN_NONE;
}

static PyObject *
refresh(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_stepping_refresh();
    Py_RETURN_NONE;
}

static PyObject *
build_devices(void)
{
    ia_device_totals copy[IA_MAX_DEVICES];
    const ia_device_totals *devices;
    ia_ledger_lock();
    int n = ia_ledger_devices(&devices);
    for (int i = 0; i < n; i++)
        copy[i] = devices[i];
    ia_ledger_unlock();
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < n; i++) {
        ia_dict_add(&dict, ia_device_build(copy[i].device),
                    Py_BuildValue("(KK)",
                                  (unsigned long long)copy[i].live_bytes,
                                  (unsigned long long)copy[i].peak_bytes));
    }
    return dict;
}

static PyObject *
totals(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_ledger_lock();
    ia_ledger_totals t = *ia_ledger_totals_now();
    size_t bytes = ia_ledger_bytes() + ia_criterion_bytes();
    ia_ledger_unlock();
    PyObject *devices = build_devices();
    if (devices == NULL)
        return NULL;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:I,s:I,s:K,s:K,s:K,s:I,s:n,s:d,s:N}", "live_bytes",
        (unsigned long long)t.live_bytes, "peak_bytes",
        (unsigned long long)t.peak_bytes, "allowed_bytes",
        (unsigned long long)t.allowed_bytes, "live_count", t.live_count,
        "generation", t.generation, "births", (unsigned long long)t.births,
        "deaths", (unsigned long long)t.deaths, "lost",
        (unsigned long long)t.lost, "tensors", ia_tensors_count(),
        "ledger_bytes",
        (Py_ssize_t)(bytes + ia_tensors_bytes() + ia_devices_bytes()),
        "hook_seconds", (double)ia_ledger_hook_ns() * 1e-9, "devices",
        devices);
}

static PyObject *
status(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return ia_stepping_status();
}

static PyObject *
history(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return ia_stepping_history();
}

static PyObject *
build_frame(const ia_source_frame *f)
{
    return Py_BuildValue("(NiNO)", ia_str(f->file), f->line,
                         ia_str(f->function), f->library ? Py_True : Py_False);
}

/* Making objects may run the collector, and that the program: the strings are
 * pinned until they are read. */
static void
unpin(void)
{
    ia_ledger_lock();
    ia_stacks_unpin();
    ia_ledger_unlock();
}

static PyObject *
site_source(PyObject *self, PyObject *arg)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(arg);
    const ia_source_frame *source;
    ia_source_frame copy = {0};
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_ledger_lock();
    uint32_t site = ia_site_of_number(number);
    source = site == IA_DROPPED ? NULL : ia_site_source(site);
    if (source != NULL)
        copy = *source;
    ia_stacks_pin();
    ia_ledger_unlock();
    PyObject *result = copy.file ? build_frame(&copy) : Py_NewRef(Py_None);
    unpin();
    return result;
}

static PyObject *
stack_frames(PyObject *self, PyObject *arg)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(arg);
    ia_source_frame copy[IA_KEPT_FRAMES];
    int n = 0;
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_ledger_lock();
    uint32_t stack = ia_stack_of_number(number);
    const ia_stack *s = stack == IA_DROPPED ? NULL : ia_stack_get(stack);
    for (; s != NULL && n < s->count; n++)
        copy[n] = *ia_stack_frame(s, n);
    ia_stacks_pin();
    ia_ledger_unlock();
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++)
        ia_list_add(&list, build_frame(&copy[i]));
    unpin();
    return list;
}

#define MAX_SUSPECTS 512

static PyObject *
build_suspect(const ia_suspect *s)
{
    return Py_BuildValue(
        "{s:K,s:I,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:I}", "site",
        (unsigned long long)s->number, "kinds", s->kinds, "since", s->since, "life", s->life, "live_count",
        s->live_count, "survivors", s->survivors, "live_bytes",
        (unsigned long long)s->live_bytes, "cycle_bytes",
        (unsigned long long)s->cycle_bytes, "graph_nodes",
        (unsigned long long)s->graph_nodes, "phase", (unsigned)s->phase);
}

static PyObject *
suspects(PyObject *self, PyObject *arg)
{
    /* On the heap and not static: making objects may run the collector, and
     * what that runs may come here again. */
    unsigned long age = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_suspect *found = PyMem_Calloc(MAX_SUSPECTS, sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    ia_clock clock = ia_stepping_clock();
    ia_ledger_lock();
    uint32_t n =
        ia_criterion_suspects(clock, (uint32_t)age, found, MAX_SUSPECTS);
    ia_ledger_unlock();
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && i < MAX_SUSPECTS; i++) {
        ia_list_add(&list, build_suspect(&found[i]));
    }
    PyMem_Free(found);
    return list;
}

/* What is alive of a site, and what was when the last tick ended: a program
 * that ends drops what it kept. */
static PyObject *
site_now(PyObject *self, PyObject *arg)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(arg);
    ia_site_totals t = {0};
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_clock clock = ia_stepping_clock();
    ia_ledger_lock();
    ia_site_totals *known = ia_ledger_site(ia_site_of_number(number));
    if (known != NULL)
        t = *known;
    uint32_t tick = ia_ledger_totals_now()->generation;
    uint64_t nodes = ia_criterion_graph(ia_site_of_number(number));
    ia_ledger_unlock();
    return Py_BuildValue("(IKKIIK)", t.live_count,
                         (unsigned long long)t.live_bytes,
                         (unsigned long long)t.cycle_bytes, t.by[clock].life,
                         t.touched == tick ? t.count_before : t.live_count,
                         (unsigned long long)nodes);
}

static PyObject *
rows(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return ia_snapshot_rows();
}

static PyObject *
consistent(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_ledger_lock();
    int ok = ia_ledger_consistent();
    ia_ledger_unlock();
    return PyBool_FromLong(ok);
}

static PyObject *
interval_open(PyObject *self, PyObject *arg)
{
    unsigned long device = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_stepping_refresh();
    return PyLong_FromUnsignedLongLong(ia_interval_open((uint16_t)device));
}

static PyObject *
interval_close(PyObject *self, PyObject *arg)
{
    unsigned long long handle = PyLong_AsUnsignedLongLong(arg);
    ia_interval w;
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_stepping_refresh();
    if (!ia_interval_close(handle, &w))
        Py_RETURN_NONE;
    return Py_BuildValue("(KKKKKKKI)", (unsigned long long)w.before_bytes,
                         (unsigned long long)w.born_bytes,
                         (unsigned long long)w.died_bytes,
                         (unsigned long long)w.peak_bytes,
                         (unsigned long long)w.births,
                         (unsigned long long)w.deaths,
                         (unsigned long long)w.peak_number,
                         w.steps);
}

static PyObject *
resident_bytes(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    return PyLong_FromUnsignedLongLong(ia_process_resident());
}

static PyObject *
diagnose(PyObject *self, PyObject *args)
{
    PyObject *sites, *any_age, *anew = NULL;
    int remember = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO|pO:diagnose", &sites, &any_age, &remember,
                          &anew))
        return NULL;
    return ia_diagnose(sites, any_age, remember, anew);
}

static PyObject *
explain(PyObject *self, PyObject *args)
{
    PyObject *objects;
    Py_ssize_t paths;
    int cost;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!np:explain", &PyTuple_Type, &objects,
                          &paths, &cost))
        return NULL;
    return ia_explain(objects, paths, cost);
}

static PyObject *
instances(PyObject *self, PyObject *args)
{
    PyTypeObject *type;
    Py_ssize_t most;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!n:instances", &PyType_Type, &type, &most))
        return NULL;
    return ia_instances(type, most);
}

/* -- holders that are known ------------------------------------------------ */

static PyObject *
visit(PyObject *self, PyObject *arg)
{
    static const char *const states[] = {"broken", "intact", "unknown"};
    PyObject *recurs[] = {Py_None, Py_True, Py_False};
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_visit v = ia_visit_path((uint32_t)path);
    return Py_BuildValue("(snKKKO)", states[v.state], v.length,
                         (unsigned long long)v.value,
                         (unsigned long long)v.first,
                         (unsigned long long)(uintptr_t)v.graph,
                         recurs[v.recurs]);
}

static PyObject *
forget_path(PyObject *self, PyObject *arg)
{
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_visits_forget((uint32_t)path);
    Py_RETURN_NONE;
}

static PyObject *
census(PyObject *self, PyObject *arg)
{
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    return PyErr_Occurred() ? NULL : ia_census_build((uint32_t)path);
}

static PyObject *
watch_statement(PyObject *self, PyObject *arg)
{
    unsigned long path = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(ia_statement_watch((uint32_t)path));
}

static PyObject *
end_statement(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_statement_end();
    return ia_statement_build();
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

#define DOC(name, signature, text)                                           \
    PyDoc_STRVAR(name##_doc, #name signature "\n--\n\n" text)

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
DOC(arrays_install, "(in_place=True)",
    "Account for the blocks of NumPy's arrays, too; False where this NumPy\n"
    "can't be watched. Not in place: in this thread's context alone.");
DOC(arrays_uninstall, "()",
    "End that: NumPy's table is as it was, its blocks leave the ledger.");
DOC(arrays_installed, "()", "Do NumPy's blocks come to the ledger?");
DOC(step, "()", "End the step by hand.");
DOC(optimizer_stepped, "(optimizer, args, kwargs)",
    "For register_optimizer_step_post_hook.");
DOC(collector_event, "(phase, info)", "For gc.callbacks.");
DOC(set_phase, "(number)", "Storages born from now on carry this phase.");
DOC(set_allowed, "(label)",
    "Storages born on this thread from now on are kept on purpose (0: not).\n"
    "Returns the label before.");
DOC(look_at, "(tick)", "Call back at that tick in any case.");
DOC(settle, "()",
    "A report is asked for: where the strongest kind of event was never\n"
    "seen, ticks are time.");
DOC(refresh, "()",
    "Account for storages that are only noticed at boundaries.");
DOC(totals, "()", "Totals of the ledger, bytes and counts, as a dict.");
DOC(status, "()", "The clocks, and what watching cost, as a dict.");
DOC(history, "()", "List of (tick, live bytes, resident bytes, seconds, counts).");
DOC(site_source, "(site)", "(file, line, function, is_library) or None.");
DOC(stack_frames, "(stack)",
    "Frames of a stack, innermost first, as site_source gives them.");
DOC(suspects, "(age)",
    "Sites that have kept theirs for so many positions, as a list of dicts.");
DOC(site_now, "(site)",
    "(live storages, their bytes, bytes that the collector freed, longest\n"
    "lifetime that ended, live storages when the last tick ended, nodes of\n"
    "the graph behind its newest tensor when last probed) of a site.");
DOC(rows, "()", "Live storages as a structured array.");
DOC(consistent, "()", "Do the ledger's totals equal the sums over its rows?");
DOC(interval_open, "(device)",
    "Begin to count births and deaths on a device; returns a handle, or 0\n"
    "when too many intervals are open.");
DOC(interval_close, "(handle)",
    "(before, born, died, peak bytes, births, deaths, stack of the peak,\n"
    "steps that ended), or None for a handle of no open interval.");
DOC(resident_bytes, "()", "Resident memory of this process, 0: unknown.");
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
DOC(diagnose, "(sites, any_age, remember=False, anew=())",
    "Walk the heap and say who holds the storages of these sites; of those\n"
    "in any_age also the ones born before the warm-up was over.");

DOC(visit, "(path)",
    "(state, length, value, first item, graph, recurs) at the end of a known\n"
    "path: \"intact\", \"broken\" or \"unknown\"; addresses, for comparing;\n"
    "whether a tensor's graph leads back to that of the visit before.");
DOC(forget_path, "(path)", "That path is not visited any more.");
DOC(census, "(path)", "{description: count} of the holder's items, or None.");
DOC(watch_statement, "(path)",
    "Watch on this thread which statements grow the holder; False where\n"
    "another tracer is set.");
DOC(end_statement, "()",
    "End that; [(file, line, function, times, items, idle)] of what was seen.");
DOC(device_rules, "(max_split, divisions)",
    "How the devices' allocator was configured: bytes above which no block\n"
    "is cut, and its roundup_power2_divisions from 1 MiB up.");
DOC(device_follow, "(device, snapshot, seen)",
    "Account for a device of which the snapshot's blocks are alive; False\n"
    "where not exactly `seen` events of it came before: take another one.");
DOC(device_events, "(events)", "Take in events, for tests.");
DOC(devices, "()", "What is known of each device, as a list of dicts.");

DOC(explain, "(objects, paths, cost)",
    "Who holds each object of a tuple, at most so many paths each.");
DOC(instances, "(type, most)",
    "(count, paths) of the live instances of a class.");

#define FAST(f) (PyCFunction)(void (*)(void))f

PyMethodDef ia_methods[] = {
    {"start", FAST(start), METH_VARARGS | METH_KEYWORDS, start_doc},
    {"stop", stop, METH_NOARGS, stop_doc},
    {"is_active", is_active, METH_NOARGS, is_active_doc},
    {"set_code", set_code, METH_VARARGS, set_code_doc},
    {"is_library", is_library, METH_O, is_library_doc},
    {"set_types", set_types, METH_VARARGS, set_types_doc},
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
    {"look_at", look_at, METH_O, look_at_doc},
    {"settle", settle, METH_NOARGS, settle_doc},
    {"refresh", refresh, METH_NOARGS, refresh_doc},
    {"totals", totals, METH_NOARGS, totals_doc},
    {"status", status, METH_NOARGS, status_doc},
    {"history", history, METH_NOARGS, history_doc},
    {"site_source", site_source, METH_O, site_source_doc},
    {"stack_frames", stack_frames, METH_O, stack_frames_doc},
    {"suspects", suspects, METH_O, suspects_doc},
    {"site_now", site_now, METH_O, site_now_doc},
    {"rows", rows, METH_NOARGS, rows_doc},
    {"consistent", consistent, METH_NOARGS, consistent_doc},
    {"interval_open", interval_open, METH_O, interval_open_doc},
    {"interval_close", interval_close, METH_O, interval_close_doc},
    {"resident_bytes", resident_bytes, METH_NOARGS, resident_bytes_doc},
    {"recorder_arm", FAST(ia_recorder_arm), METH_VARARGS | METH_KEYWORDS,
     recorder_arm_doc},
    {"recorder_disarm", ia_recorder_disarm, METH_NOARGS,
     recorder_disarm_doc},
    {"recorder_write", ia_recorder_write, METH_VARARGS, recorder_write_doc},
    {"recorder_status", ia_recorder_status, METH_NOARGS,
     recorder_status_doc},
    {"recorder_events", ia_recorder_events, METH_NOARGS,
     recorder_events_doc},
    {"diagnose", diagnose, METH_VARARGS, diagnose_doc},
    {"visit", visit, METH_O, visit_doc},
    {"forget_path", forget_path, METH_O, forget_path_doc},
    {"census", census, METH_O, census_doc},
    {"watch_statement", watch_statement, METH_O, watch_statement_doc},
    {"end_statement", end_statement, METH_NOARGS, end_statement_doc},
    {"device_rules", ia_device_rules_method, METH_VARARGS,
     device_rules_doc},
    {"device_follow", ia_device_follow_method, METH_VARARGS,
     device_follow_doc},
    {"device_events", ia_device_events_method, METH_O, device_events_doc},
    {"devices", ia_devices_method, METH_NOARGS, devices_doc},
    {"explain", explain, METH_VARARGS, explain_doc},
    {"instances", instances, METH_VARARGS, instances_doc},
    {"_born", test_born, METH_VARARGS, NULL},
    {"_died", test_died, METH_O, NULL},
    {"_fail", test_fail, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
