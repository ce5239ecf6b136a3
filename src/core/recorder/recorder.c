/* The flight recorder: what it has ready, and what it does on a failure. */

#include "../base/clock.h"
#include "../base/errors.h"
#include "../base/process.h"
#include "../ledger/ledger.h"
#include "../ledger/ring.h"
#include "../ledger/sites.h"
#include "../steps/unseen.h"
#include "bundle.h"
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bundles that are told apart to remove the oldest; and those that wait for
 * their second stage. */
#define MAX_WAITING 8

typedef char bundle_name[IA_BUNDLE_NAME];

/* Guards everything below but the two flags, and the bundle's one file
 * buffer. */
static pthread_mutex_t writer = PTHREAD_MUTEX_INITIALIZER;
static atomic_int armed;
static atomic_int called; /* the second stage was asked for */

static struct {
    int folder;              /* file descriptor, owned */
    ia_ring_event *events;   /* owned: the ring */
    ia_ring_event *copy;     /* owned: of the ring, while writing */
    ia_site_row *sites;      /* owned */
    ia_source_frame *sources; /* owned */
    PyObject *second_stage;  /* owned; called with the bundle's name (GIL) */
    void *reserve; /* owned: memory to give back before the second stage */
    size_t reserve_bytes;
    uint32_t event_capacity, site_capacity;
    uint32_t keep;
    int without_sources; /* file and function names stay in the process */
    uint64_t interval_ns, last_ns;
    bundle_name kept[IA_MAX_KEPT];       /* oldest first */
    bundle_name waiting[MAX_WAITING]; /* for the second stage */
    uint32_t nkept, nwaiting;
    uint64_t written, sequence;
    int error; /* errno of the last failure */
} rec = {.folder = -1};

/* -- memory -------------------------------------------------------------- */

/* Memory that is really there, not only promised.  Not malloc's: what it
 * frees changes how it serves the program. */
static void *
take(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void
give_back(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}

/* The second stage needs memory where there is none: this much was kept for
 * it.  Both need the writer's lock. */
static void
spend_reserve(void)
{
    give_back(rec.reserve, rec.reserve_bytes);
    rec.reserve = NULL;
}

static void
renew_reserve(void)
{
    if (rec.reserve == NULL && rec.reserve_bytes > 0)
        rec.reserve = take(rec.reserve_bytes);
}

/* -- what is alive, by site ---------------------------------------------- */

static ia_site_row
row_of(uint32_t site, const ia_site_totals *t)
{
    return (ia_site_row){
        .live_bytes = t->live_bytes,
        .born_bytes = t->born_bytes,
        .site = site,
        .live_count = t->live_count,
        .born_count = t->born_count,
        .collected = t->cycle_count,
        .first_step = t->first_position,
        .last_step = t->last_position,
    };
}

static uint32_t
smallest_row(uint32_t n)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < n; i++)
        if (rec.sites[i].live_bytes < rec.sites[least].live_bytes)
            least = i;
    return least;
}

static void
set_row(uint32_t i, uint32_t site, const ia_site_totals *t)
{
    const ia_source_frame *source = ia_site_source(site);
    rec.sites[i] = row_of(site, t);
    rec.sources[i] = source && !rec.without_sources ? *source
                                                    : (ia_source_frame){0};
}

/* The sites with the most live bytes; needs the ledger's lock. */
static void
collect_sites(ia_bundle *b)
{
    uint32_t n = 0, least = 0;
    for (uint32_t site = 0; site < ia_ledger_sites(); site++) {
        const ia_site_totals *t = ia_ledger_site(site);
        if (t == NULL || t->live_count == 0)
            continue;
        if (n < rec.site_capacity) {
            set_row(n++, site, t);
            if (n == rec.site_capacity)
                least = smallest_row(n);
            continue;
        }
        b->left_out++;
        if (t->live_bytes > rec.sites[least].live_bytes) {
            set_row(least, site, t);
            least = smallest_row(n);
        }
    }
    b->nsites = n;
}

/* One copy under the ledger's lock: writing takes long.  The names are pinned
 * until let_go_of_names(). */
static void
collect(ia_bundle *b)
{
    const ia_device_totals *devices;
    ia_ledger_lock();
    ia_ring_mark(b->device, b->asked);
    b->totals = *ia_ledger_totals_now();
    b->ndevices = ia_ledger_devices(&devices);
    memcpy(b->devices, devices, (size_t)b->ndevices * sizeof *devices);
    b->nevents = ia_ring_copy(rec.copy, &b->all_events);
    collect_sites(b);
    ia_stacks_pin();
    ia_ledger_unlock();
    b->events = rec.copy;
    b->sites = rec.sites;
    b->sources = rec.sources;
    b->resident = ia_process_resident();
}

static void
let_go_of_names(void)
{
    ia_ledger_lock();
    ia_stacks_unpin();
    ia_ledger_unlock();
}

/* -- writing ------------------------------------------------------------- */

static void
keep_name(const char *name)
{
    if (rec.nkept == rec.keep) {
        ia_bundle_remove(rec.folder, rec.kept[0]);
        memmove(rec.kept[0], rec.kept[1],
                (rec.nkept - 1) * sizeof *rec.kept);
        rec.nkept--;
    }
    memcpy(rec.kept[rec.nkept++], name, IA_BUNDLE_NAME);
}

/* Needs the writer's lock.  0 and the name, or an errno. */
static int
write_bundle(const char *reason, uint16_t device, uint64_t asked, char *name)
{
    static ia_bundle b;
    memset(&b, 0, sizeof b);
    snprintf(b.reason, sizeof b.reason, "%s", reason);
    b.device = device;
    b.asked = asked;
    collect(&b);
    snprintf(name, IA_BUNDLE_NAME, "oom-%013" PRIu64 "-%ld-%" PRIu64,
             ia_clock_ns(CLOCK_REALTIME) / 1000000, (long)getpid(),
             ++rec.sequence);
    rec.error = ia_bundle_write(&b, rec.folder, name);
    let_go_of_names();
    rec.last_ns = ia_clock_ns(CLOCK_MONOTONIC);
    if (rec.error == 0) {
        rec.written++;
        keep_name(name);
    }
    return rec.error;
}

/* Whether what was raised is no failure but an end: Ctrl-C, sys.exit(). */
static int
is_to_end(void)
{
    return PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception);
}

/* -1 with an exception where the program is to end, else 0: a failure is
 * not the program's, whose own exception stays. */
static int
complete(PyObject *second_stage, const char *name)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int seen = ia_unseen_begin();
    Py_XDECREF(PyObject_CallFunction(second_stage, "s", name));
    ia_unseen_end(seen);
    if (is_to_end()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return -1;
    }
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return 0;
}

static int run_second_stage(void *);

/* Lets go of the writer's lock.  A second stage that was due while it was
 * held found it taken, so it is asked for again. */
static void
unlock_writer(void)
{
    int due = rec.nwaiting > 0;
    pthread_mutex_unlock(&writer);
    if (due && !atomic_exchange(&called, 1) &&
        Py_AddPendingCall(run_second_stage, NULL) < 0)
        atomic_store(&called, 0); /* no room now: the next one asks */
}

/* The second stage and its bundle's name, oldest first; NULL where nothing
 * waits, or where the one who has the lock will ask again.  A new
 * reference. */
static PyObject *
take_waiting(char *name)
{
    PyObject *second_stage = NULL;
    if (pthread_mutex_trylock(&writer) != 0)
        return NULL;
    if (rec.nwaiting > 0) {
        memcpy(name, rec.waiting[0], IA_BUNDLE_NAME);
        memmove(rec.waiting[0], rec.waiting[1],
                --rec.nwaiting * sizeof *rec.waiting);
        second_stage = Py_XNewRef(rec.second_stage);
    }
    unlock_writer();
    return second_stage;
}

/* Runs the second stage of all that is waiting, with the GIL, where the main
 * thread comes to its next instruction. */
static int
run_second_stage(void *unused)
{
    bundle_name name;
    PyObject *second_stage;
    int result = 0;
    (void)unused;
    atomic_store(&called, 0);
    if (!atomic_load(&armed))
        return 0;
    while (result == 0 && (second_stage = take_waiting(name)) != NULL) {
        result = complete(second_stage, name);
        Py_DECREF(second_stage);
    }
    if (pthread_mutex_trylock(&writer) == 0) {
        if (atomic_load(&armed))
            renew_reserve();
        unlock_writer();
    }
    return result;
}

void
ia_recorder_oom(uint16_t device, size_t asked)
{
    bundle_name name;
    int saved = errno;
    if (!atomic_load(&armed) || pthread_mutex_trylock(&writer) != 0)
        return;
    if (atomic_load(&armed) &&
        (rec.last_ns == 0 ||
         ia_clock_ns(CLOCK_MONOTONIC) - rec.last_ns >= rec.interval_ns) &&
        write_bundle("out of memory", device, asked, name) == 0 &&
        rec.second_stage != NULL && rec.nwaiting < MAX_WAITING) {
        memcpy(rec.waiting[rec.nwaiting++], name, sizeof name);
        spend_reserve();
    }
    unlock_writer();
    errno = saved;
}

void
ia_recorder_after_fork(void)
{
    atomic_store(&armed, 0);
    atomic_store(&called, 0);
    pthread_mutex_init(&writer, NULL);
    rec.nwaiting = 0; /* the parent's, who completes them */
    ia_ring_detach();
}

/* -- arming -------------------------------------------------------------- */

/* Needs the writer's lock.  The second stage is given back, to be let go of
 * without it. */
static PyObject *
let_go(void)
{
    PyObject *second_stage = rec.second_stage;
    ia_ledger_lock();
    ia_ring_detach();
    ia_ledger_unlock();
    if (rec.folder >= 0)
        close(rec.folder);
    give_back(rec.events, rec.event_capacity * sizeof *rec.events);
    give_back(rec.copy, rec.event_capacity * sizeof *rec.copy);
    give_back(rec.sites, rec.site_capacity * sizeof *rec.sites);
    give_back(rec.sources, rec.site_capacity * sizeof *rec.sources);
    spend_reserve();
    uint64_t sequence = rec.sequence; /* names are never used again */
    memset(&rec, 0, sizeof rec);
    rec.folder = -1;
    rec.sequence = sequence;
    return second_stage;
}

static int
take_memory(uint32_t events, uint32_t sites)
{
    rec.event_capacity = events;
    rec.site_capacity = sites;
    rec.events = take(events * sizeof *rec.events);
    rec.copy = take(events * sizeof *rec.copy);
    rec.sites = take(sites * sizeof *rec.sites);
    rec.sources = take(sites * sizeof *rec.sources);
    renew_reserve();
    int whole = rec.events && rec.copy && rec.sites && rec.sources &&
                (rec.reserve || rec.reserve_bytes == 0);
    return whole ? 0 : ia_no_memory();
}

/* The newest of the bundles that are there; the caller has removed others. */
static int
take_names(PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        if (name == NULL)
            return -1;
        if (rec.nkept < rec.keep && strlen(name) < IA_BUNDLE_NAME)
            strcpy(rec.kept[rec.nkept++], name);
    }
    return 0;
}

static int
arm(const char *folder, PyObject *names, unsigned events, unsigned sites)
{
    if (take_memory(events, sites) < 0)
        return -1;
    rec.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rec.folder < 0) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder);
        return -1;
    }
    if (take_names(names) < 0)
        return -1;
    ia_ledger_lock();
    ia_ring_attach(rec.events, events);
    ia_ledger_unlock();
    return 0;
}

PyObject *
ia_recorder_arm(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *options[] = {"folder",  "names",        "events",
                              "sites",   "keep",         "interval",
                              "reserve", "sources",      "second_stage",
                              NULL};
    PyObject *folder = NULL; /* bytes, owned */
    PyObject *names, *second_stage = Py_None, *old = NULL;
    unsigned events = 10000, sites = 4096, keep = 5;
    double interval = 0;
    Py_ssize_t reserve = 0;
    int sources = 1;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O&O!|$IIIdnpO:recorder_arm", options,
            PyUnicode_FSConverter, &folder, &PyTuple_Type, &names, &events,
            &sites, &keep, &interval, &reserve, &sources, &second_stage))
        return NULL;
    if (events == 0 || sites == 0 || keep == 0 || keep > IA_MAX_KEPT) {
        PyErr_Format(PyExc_ValueError,
                     "events, sites and keep must be at least 1, keep at "
                     "most %d",
                     IA_MAX_KEPT);
        Py_DECREF(folder);
        return NULL;
    }
    atomic_store(&armed, 0);
    pthread_mutex_lock(&writer);
    old = let_go();
    rec.keep = keep;
    rec.without_sources = !sources;
    rec.reserve_bytes = reserve > 0 ? (size_t)reserve : 0;
    rec.interval_ns = interval > 0 ? (uint64_t)(interval * 1e9) : 0;
    int bad = arm(PyBytes_AS_STRING(folder), names, events, sites) < 0;
    if (bad)
        let_go();
    else if (second_stage != Py_None)
        rec.second_stage = Py_NewRef(second_stage);
    atomic_store(&armed, !bad);
    unlock_writer();
    Py_XDECREF(old);
    Py_DECREF(folder);
    return bad ? NULL : Py_NewRef(Py_None);
}

PyObject *
ia_recorder_disarm(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    atomic_store(&armed, 0);
    pthread_mutex_lock(&writer);
    PyObject *old = let_go();
    unlock_writer();
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* -- by hand ------------------------------------------------------------- */

PyObject *
ia_recorder_write(PyObject *self, PyObject *args)
{
    const char *reason;
    unsigned device = 0;
    unsigned long long asked = 0;
    bundle_name name = "";
    int error = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "s|IK:recorder_write", &reason, &device,
                          &asked))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&writer);
    if (atomic_load(&armed))
        error = write_bundle(reason, (uint16_t)device, asked, name);
    unlock_writer();
    Py_END_ALLOW_THREADS
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return name[0] ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}

PyObject *
ia_recorder_status(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    pthread_mutex_lock(&writer);
    unsigned long long written = rec.written;
    unsigned waiting = rec.nwaiting;
    int error = rec.error;
    unlock_writer();
    return Py_BuildValue("{s:O,s:K,s:I,s:z}", "armed",
                         atomic_load(&armed) ? Py_True : Py_False, "written",
                         written, "waiting", waiting, "error",
                         error ? strerror(error) : NULL);
}

PyObject *
ia_recorder_events(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    uint64_t all;
    uint32_t n = 0;
    if (!atomic_load(&armed))
        return PyBytes_FromStringAndSize(NULL, 0);
    PyObject *bytes = PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)(rec.event_capacity * sizeof *rec.events));
    if (bytes == NULL)
        return NULL;
    ia_ledger_lock();
    n = ia_ring_copy((ia_ring_event *)(void *)PyBytes_AS_STRING(bytes), &all);
    ia_ledger_unlock();
    _PyBytes_Resize(&bytes, (Py_ssize_t)(n * sizeof *rec.events));
    return bytes;
}
