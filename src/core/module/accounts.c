/* Functions of _core: what the ledger and the clocks know. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/process.h"
#include "../ledger/devices.h"
#include "../ledger/frames.h"
#include "../ledger/intervals.h"
#include "../ledger/ledger.h"
#include "../ledger/samples.h"
#include "../ledger/sites.h"
#include "../ledger/tensors.h"
#include "../steps/criterion.h"
#include "../steps/curves.h"
#include "../steps/failure.h"
#include "../steps/graphs.h"
#include "../steps/steps.h"
#include "../answers/describe.h"
#include "../recorder/recorder.h"
#include "methods.h"
#include "snapshot.h"

#include <stdlib.h>

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
probe_graphs(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    ia_graphs_probe(IA_PROBE_BUDGET);
    Py_RETURN_NONE;
}

static PyObject *
device_name(PyObject *self, PyObject *arg)
{
    unsigned long code = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    return ia_device_build((uint16_t)code);
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
    size_t bytes = ia_ledger_bytes() + ia_criterion_bytes() +
                   ia_samples_bytes();
    uint64_t stacks_lost = ia_stacks_lost();
    ia_ledger_unlock();
    PyObject *devices = build_devices();
    if (devices == NULL)
        return NULL;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:I,s:I,s:K,s:K,s:K,s:K,s:K,s:I,s:n,s:d,s:N}",
        "live_bytes",
        (unsigned long long)t.live_bytes, "peak_bytes",
        (unsigned long long)t.peak_bytes, "allowed_bytes",
        (unsigned long long)t.allowed_bytes, "live_count", t.live_count,
        "generation", t.generation, "births", (unsigned long long)t.births,
        "deaths", (unsigned long long)t.deaths, "lost",
        (unsigned long long)t.lost, "stacks_lost",
        (unsigned long long)stacks_lost, "graphs_lost",
        (unsigned long long)ia_graphs_lost(), "tensors", ia_tensors_count(),
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
    return ia_snapshot_curves();
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
        "{s:K,s:I,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:I,s:N}", "site",
        (unsigned long long)s->number, "kinds", s->kinds, "since", s->since,
        "life", s->life, "live_count", s->live_count, "survivors",
        s->survivors, "live_bytes",
        (unsigned long long)s->live_bytes, "cycle_bytes",
        (unsigned long long)s->cycle_bytes, "graph_nodes",
        (unsigned long long)s->graph_nodes, "phase", (unsigned)s->phase,
        "device", ia_device_build(s->device));
}

/* Live storages of a site that were born by that tick, at most. */
static uint32_t
older_of(const ia_site_totals *site, uint32_t tick)
{
    const ia_survivors *s = &site->by[IA_BY_TICK];
    uint32_t older = site->live_count;
    for (uint32_t i = s->begun ? s->current + 1 : 0; i-- > 0;)
        if (ia_survivors_begin(s, i) > tick)
            older -= s->born[i] < older ? s->born[i] : older;
    return older;
}

/* Was most of what is alive of it born since the position last moved? */
static int
is_late(const ia_suspect *s)
{
    const ia_site_totals *site = ia_ledger_site(s->site);
    return 2 * older_of(site, ia_stepping_moved_at()) < site->live_count;
}

static PyObject *
suspects_by(ia_clock clock, unsigned long age, int late)
{
    /* On the heap and not static: making objects may run the collector, and
     * what that runs may come here again. */
    ia_suspect *found = PyMem_Calloc(MAX_SUSPECTS, sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    ia_ledger_lock();
    uint32_t n =
        ia_criterion_suspects(clock, (uint32_t)age, found, MAX_SUSPECTS);
    n = n < MAX_SUSPECTS ? n : MAX_SUSPECTS;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!late || is_late(&found[i]))
            found[kept++] = found[i];
    ia_ledger_unlock();
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < kept; i++) {
        ia_list_add(&list, build_suspect(&found[i]));
    }
    PyMem_Free(found);
    return list;
}

static PyObject *
suspects(PyObject *self, PyObject *arg)
{
    unsigned long age = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    return suspects_by(ia_stepping_clock(), age, 0);
}

static PyObject *
late_suspects(PyObject *self, PyObject *arg)
{
    unsigned long age = PyLong_AsUnsignedLong(arg);
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    if (ia_ledger_now(IA_BY_TICK) - ia_stepping_moved_at() < age)
        return PyList_New(0);
    return suspects_by(IA_BY_TICK, age, 1);
}

#define MAX_RISES 32

static PyObject *
build_rise(const ia_rise *rise)
{
    const ia_survivors *s = &rise->by;
    PyObject *least = PyTuple_New((Py_ssize_t)s->current + 1);
    for (uint32_t i = 0; least && i <= s->current; i++) {
        PyObject *bytes = PyFloat_FromDouble(s->low_bytes[i]);
        if (bytes == NULL)
            Py_CLEAR(least);
        else
            PyTuple_SET_ITEM(least, i, bytes);
    }
    return Py_BuildValue("(KNIIN)", (unsigned long long)rise->number,
                         ia_device_build(rise->device), s->base,
                         (uint32_t)1 << s->shift, least);
}

static PyObject *
rises(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    ia_clock clock = ia_stepping_clock();
    ia_rise *found = PyMem_Calloc(MAX_RISES, sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    ia_ledger_lock();
    uint32_t n = ia_criterion_rises(clock, found, MAX_RISES);
    ia_ledger_unlock();
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n; i++)
        ia_list_add(&list, build_rise(&found[i]));
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

/* Survivors of a site by birth, of the clock in force, up to its present. */
static PyObject *
site_ages(PyObject *self, PyObject *arg)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(arg);
    ia_survivors s = {0};
    (void)self;
    if (PyErr_Occurred())
        return NULL;
    ia_clock clock = ia_stepping_clock();
    ia_ledger_lock();
    ia_site_totals *known = ia_ledger_site(ia_site_of_number(number));
    if (known != NULL) {
        s = known->by[clock];
        ia_survivors_advance(&s, ia_ledger_now((int)clock), 0, 0);
    }
    ia_ledger_unlock();
    Py_ssize_t n = s.begun ? (Py_ssize_t)s.current + 1 : 0;
    PyObject *alive = PyTuple_New(n);
    for (Py_ssize_t i = 0; alive && i < n; i++) {
        PyObject *count = PyLong_FromUnsignedLong(s.born[i]);
        if (count == NULL)
            Py_CLEAR(alive);
        else
            PyTuple_SET_ITEM(alive, i, count);
    }
    return Py_BuildValue("(IIN)", s.base, (uint32_t)1 << s.shift, alive);
}

static PyObject *
site_older(PyObject *self, PyObject *args)
{
    unsigned long long number;
    unsigned int tick;
    uint32_t older = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "KI:site_older", &number, &tick))
        return NULL;
    ia_ledger_lock();
    const ia_site_totals *known = ia_ledger_site(ia_site_of_number(number));
    if (known != NULL)
        older = older_of(known, tick);
    ia_ledger_unlock();
    return PyLong_FromUnsignedLong(older);
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
build_heap(uint64_t bytes)
{
    return bytes == IA_HEAP_UNKNOWN ? Py_NewRef(Py_None)
                                    : PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *
process_memory(PyObject *self, PyObject *unused)
{
    ia_process_memory m;
    (void)self, (void)unused;
    ia_process_read(&m);
    return Py_BuildValue("(KKKNN)", (unsigned long long)m.resident,
                         (unsigned long long)m.files,
                         (unsigned long long)m.shared, build_heap(m.heap_used),
                         build_heap(m.heap_free));
}

DOC(settle, "()",
    "A report is asked for: where the strongest kind of event was never\n"
    "seen, ticks are time.");
DOC(device_name, "(code)", "What a device (type << 8 | index) is called.");
DOC(probe_graphs, "()",
    "Measures how far the graph of each line's newest tensor reaches.");
DOC(refresh, "()",
    "Account for storages that are only noticed at boundaries.");
DOC(totals, "()", "Totals of the ledger, bytes and counts, as a dict.");
DOC(status, "()", "The clocks, and what watching cost, as a dict.");
DOC(history, "()",
    "(points, lines, nodes): lists of (tick, live bytes, resident bytes,\n"
    "seconds, counts, phase, allocated bytes, reserved bytes), of (site,\n"
    "first point that has it, live bytes at each from there on) for the lines\n"
    "that hold most, and of (counts, autograd nodes, their bytes).");
DOC(site_source, "(site)", "(file, line, function, is_library) or None.");
DOC(stack_frames, "(stack)",
    "Frames of a stack, innermost first, as site_source gives them.");
DOC(suspects, "(age)",
    "Sites that have kept theirs for so many positions, as a list of dicts.");
DOC(late_suspects, "(age)",
    "The same by ticks, of sites most of whose live storages were born since\n"
    "the position last moved.");
DOC(rises, "()",
    "(site, device, begin of the first stretch, how wide they are, least\n"
    "bytes that were alive in each) of the sites whose least have risen, but\n"
    "for the stretch that is not over.");
DOC(site_now, "(site)",
    "(live storages, their bytes, bytes that the collector freed, longest\n"
    "lifetime that ended, live storages when the last tick ended, nodes of\n"
    "the graph behind its newest tensor when last probed) of a site.");
DOC(site_ages, "(site)",
    "(position or tick of the first stretch, how wide they are, live storages\n"
    "that were born in each) of a site.");
DOC(site_older, "(site, tick)",
    "Live storages of a site that were born by that tick, at most.");
DOC(rows, "()", "Live storages as a structured array.");
DOC(consistent, "()", "Do the ledger's totals equal the sums over its rows?");
DOC(interval_open, "(device)",
    "Begin to count births and deaths on a device; returns a handle, or 0\n"
    "when too many intervals are open.");
DOC(interval_close, "(handle)",
    "(before, born, died, peak bytes, births, deaths, stack of the peak,\n"
    "steps that ended), or None for a handle of no open interval.");
DOC(resident_bytes, "()", "Resident memory of this process, 0: unknown.");
DOC(process_memory, "()",
    "(resident bytes, of these files' and shared ones, bytes of malloc's heap\n"
    "in use, free ones that it keeps); None: another allocator serves.");

PyMethodDef ia_accounts_methods[] = {
    {"settle", settle, METH_NOARGS, settle_doc},
    {"device_name", device_name, METH_O, device_name_doc},
    {"refresh", refresh, METH_NOARGS, refresh_doc},
    {"probe_graphs", probe_graphs, METH_NOARGS, probe_graphs_doc},
    {"totals", totals, METH_NOARGS, totals_doc},
    {"status", status, METH_NOARGS, status_doc},
    {"history", history, METH_NOARGS, history_doc},
    {"site_source", site_source, METH_O, site_source_doc},
    {"stack_frames", stack_frames, METH_O, stack_frames_doc},
    {"suspects", suspects, METH_O, suspects_doc},
    {"late_suspects", late_suspects, METH_O, late_suspects_doc},
    {"rises", rises, METH_NOARGS, rises_doc},
    {"site_now", site_now, METH_O, site_now_doc},
    {"site_ages", site_ages, METH_O, site_ages_doc},
    {"site_older", site_older, METH_VARARGS, site_older_doc},
    {"rows", rows, METH_NOARGS, rows_doc},
    {"consistent", consistent, METH_NOARGS, consistent_doc},
    {"interval_open", interval_open, METH_O, interval_open_doc},
    {"interval_close", interval_close, METH_O, interval_close_doc},
    {"resident_bytes", resident_bytes, METH_NOARGS, resident_bytes_doc},
    {"process_memory", process_memory, METH_NOARGS, process_memory_doc},
    {NULL, NULL, 0, NULL},
};
