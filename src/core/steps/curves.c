/* The run's curves: what memory was like at boundaries, thinned. */

#include "../base/compat.h"
#include "../base/build.h"
#include "../base/clock.h"
#include "../base/device_name.h"
#include "../base/process.h"
#include "../ledger/journal.h"
#include "../ledger/devices.h"
#include "../ledger/sites.h"
#include "criterion.h"
#include "curves.h"
#include "trend.h"

#include <string.h>

/* When this is reached, every second point is dropped, and from then on points
 * are noted half as often. */
#define POINTS 4096
/* Graphs are weighed where they are probed: some sixteen times per doubling
 * of the run. */
#define WEIGHINGS 512
/* The kernel and malloc are asked what the process has at most this often: the
 * kernel takes as long as twenty births.  Malloc goes through all that is free
 * in it, and is asked for at most this part of the time. */
#define READ_SECONDS 0.02
#define HEAP_SHARE 0.005
/* What rises, in all: the arrays of our own walks are some MiB, which are
 * resident when they have been freed; objects of our own looks, which stay in
 * the heap, some ten KiB. */
#define LEAST_RESIDENT ((uint64_t)8 << 20)
#define LEAST_HEAP ((uint64_t)384 << 10)
/* Choosing the lines goes through all sites, so it is done only this often in
 * each doubling of the run. */
#define CHOICES_PER_DOUBLING 16

typedef struct {
    uint32_t tick;
    uint32_t counts[IA_EVENTS]; /* events of each kind so far */
    uint16_t phase;
    uint64_t live_bytes;
    uint64_t host_bytes;      /* of these, in the process's own memory */
    uint64_t resident_bytes;  /* of the process, read now and then */
    uint64_t heap_bytes;      /* in use of malloc's but these and the ledger's;
                                 0: not read at this point */
    uint64_t allocated_bytes; /* of devices whose allocator reports to us */
    uint64_t reserved_bytes;
    double seconds; /* since the start */
    uint64_t lines[IA_CURVE_LINES];
} point;

typedef struct {
    uint32_t site;
    uint32_t since; /* first point that has it */
    uint64_t most;  /* bytes so far */
    int taken;
} line;

typedef struct {
    uint32_t counts[IA_EVENTS];
    uint64_t nodes, bytes;
} weighing;

static struct {
    point points[POINTS];
    line lines[IA_CURVE_LINES];
    weighing weighings[WEIGHINGS];
    uint32_t npoints, nweighings, stride, next_choice;
    uint64_t resident_bytes;
    double resident_again, heap_again; /* when they may be read again */
    ia_trend trend; /* of what is resident beside tensors and arrays */
    ia_trend heap_trend;
} curves;

void
ia_curves_reset(void)
{
    memset(&curves, 0, sizeof curves);
    curves.stride = 1;
}

/* -- lines ----------------------------------------------------------------- */

static line *
line_of(uint32_t site)
{
    for (int i = 0; i < IA_CURVE_LINES; i++)
        if (curves.lines[i].taken && curves.lines[i].site == site)
            return &curves.lines[i];
    return NULL;
}

/* The place that is free, or whose line never held more than any other's. */
static line *
least_line(void)
{
    line *least = &curves.lines[0];
    for (int i = 0; i < IA_CURVE_LINES; i++) {
        line *l = &curves.lines[i];
        if (!l->taken)
            return l;
        if (l->most < least->most)
            least = l;
    }
    return least;
}

/* A line that holds more than one that is kept ever did takes its place: what
 * that one held goes to the others. */
static void
choose_lines(uint32_t tick)
{
    uint32_t n = ia_ledger_sites();
    if (tick < curves.next_choice)
        return;
    curves.next_choice = tick + 1 + tick / CHOICES_PER_DOUBLING;
    for (uint32_t i = 0; i < n; i++) {
        const ia_site_totals *totals = ia_ledger_site(i);
        if (totals->live_bytes == 0 || line_of(i) != NULL)
            continue;
        line *l = least_line();
        if (!l->taken || totals->live_bytes > l->most)
            *l = (line){.site = i,
                        .since = curves.npoints,
                        .most = totals->live_bytes,
                        .taken = 1};
    }
}

static void
read_lines(point *p)
{
    for (int i = 0; i < IA_CURVE_LINES; i++) {
        line *l = &curves.lines[i];
        if (!l->taken)
            continue;
        p->lines[i] = ia_ledger_site(l->site)->live_bytes;
        if (p->lines[i] > l->most)
            l->most = p->lines[i];
    }
}

void
ia_curves_forget_site(uint32_t site)
{
    line *l = line_of(site);
    if (l != NULL)
        *l = (line){0};
}

/* -- points ---------------------------------------------------------------- */

static void
thin(void)
{
    for (size_t i = 0; i < POINTS / 2; i++)
        curves.points[i] = curves.points[2 * i];
    curves.npoints = POINTS / 2;
    curves.stride *= 2;
    for (int i = 0; i < IA_CURVE_LINES; i++)
        curves.lines[i].since = (curves.lines[i].since + 1) / 2;
}

int
ia_curves_due(uint32_t tick)
{
    /* Ticks count from 1, and the first point stays. */
    if ((tick - 1) % curves.stride == 0 && curves.npoints == POINTS)
        thin();
    return (tick - 1) % curves.stride == 0;
}

static void
read_devices(point *p)
{
    const ia_followed *devices;
    int n = ia_devices_all(&devices);
    for (int i = 0; i < n; i++) {
        if (devices[i].blocks == NULL)
            continue;
        const ia_block_totals *t = ia_blocks_totals(devices[i].blocks);
        p->allocated_bytes += t->allocated_bytes;
        p->reserved_bytes += t->reserved_bytes;
    }
}

/* What lies in this process's own memory: of tensors and of arrays. */
static uint64_t
host_bytes(void)
{
    const ia_device_totals *devices;
    uint64_t bytes = 0;
    int n = ia_ledger_devices(&devices);
    for (int i = 0; i < n; i++)
        if (devices[i].device == IA_DEVICE_CPU ||
            devices[i].device == IA_DEVICE_NUMPY)
            bytes += devices[i].live_bytes;
    return bytes;
}

static int
read_resident(double now)
{
    if (now < curves.resident_again)
        return 0;
    curves.resident_bytes = ia_process_resident();
    curves.resident_again = now + READ_SECONDS;
    return 1;
}

/* Of malloc's; 0 where it is not asked now, or not known. */
static uint64_t
read_heap(double now)
{
    if (now < curves.heap_again)
        return 0;
    uint64_t began = ia_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t heap = ia_process_heap();
    uint64_t took = ia_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    double pause = (double)took * 1e-9 / HEAP_SHARE;
    curves.heap_again = now + (pause > READ_SECONDS ? pause : READ_SECONDS);
    return heap != IA_HEAP_UNKNOWN ? heap : 0;
}

/* Nodes, what C libraries have, and larger parts of Python's objects. */
static uint64_t
heap_beside(uint64_t heap, uint64_t host)
{
    uint64_t known = host + ia_ledger_bytes() + ia_criterion_bytes();
    return heap > known ? heap - known : 0;
}

/* 1 where a rise was just seen for the first time. */
static int
note_trends(const point *p, int fresh)
{
    int found = 0;
    if (fresh && p->resident_bytes > p->host_bytes)
        found |= ia_trend_note(&curves.trend,
                               p->resident_bytes - p->host_bytes,
                               LEAST_RESIDENT);
    if (p->heap_bytes > 0)
        found |= ia_trend_note(&curves.heap_trend, p->heap_bytes, LEAST_HEAP);
    return found;
}

int
ia_curves_note(uint32_t tick, const uint32_t *counts, double seconds)
{
    double now = ia_seconds();
    int fresh = read_resident(now);
    uint64_t heap = read_heap(now);
    point *p = &curves.points[curves.npoints];
    *p = (point){.tick = tick,
                 .phase = ia_ledger_phase(),
                 .resident_bytes = curves.resident_bytes,
                 .seconds = seconds};
    memcpy(p->counts, counts, sizeof p->counts);
    ia_ledger_lock();
    p->live_bytes = ia_ledger_totals_now()->live_bytes;
    p->host_bytes = host_bytes();
    p->heap_bytes = heap_beside(heap, p->host_bytes);
    choose_lines(tick);
    read_lines(p);
    read_devices(p);
    ia_ledger_unlock();
    curves.npoints++;
    return note_trends(p, fresh);
}

int
ia_curves_rise(void)
{
    return curves.trend.rises || curves.heap_trend.rises;
}

void
ia_curves_note_nodes(const uint32_t *counts, uint64_t nodes, uint64_t bytes)
{
    if (curves.nweighings == WEIGHINGS) {
        for (size_t i = 0; i < WEIGHINGS / 2; i++)
            curves.weighings[i] = curves.weighings[2 * i];
        curves.nweighings = WEIGHINGS / 2;
    }
    weighing *w = &curves.weighings[curves.nweighings++];
    *w = (weighing){.nodes = nodes, .bytes = bytes};
    memcpy(w->counts, counts, sizeof w->counts);
}

/* -- for Python ------------------------------------------------------------ */

PyObject *
ia_counts_build(const uint32_t *counts)
{
    return Py_BuildValue("(IIIII)", counts[IA_EVENT_OPTIMIZER],
                         counts[IA_EVENT_BACKWARD], counts[IA_EVENT_MODULE],
                         counts[IA_EVENT_COMPILED], counts[IA_EVENT_MANUAL]);
}

static PyObject *
build_point(const point *p)
{
    return Py_BuildValue("(IKKdNIKKKK)", p->tick,
                         (unsigned long long)p->live_bytes,
                         (unsigned long long)p->resident_bytes, p->seconds,
                         ia_counts_build(p->counts), (unsigned)p->phase,
                         (unsigned long long)p->allocated_bytes,
                         (unsigned long long)p->reserved_bytes,
                         (unsigned long long)p->host_bytes,
                         (unsigned long long)p->heap_bytes);
}

static PyObject *
build_line(int i, uint32_t npoints, uint32_t since, uint64_t number)
{
    PyObject *sizes = PyList_New(0);
    for (uint32_t at = since; sizes && at < npoints; at++)
        ia_list_add(&sizes, PyLong_FromUnsignedLongLong(
                                curves.points[at].lines[i]));
    return sizes == NULL ? NULL
                         : Py_BuildValue("(KIN)", (unsigned long long)number,
                                         since, sizes);
}

/* Making objects may run the collector, and that the program, which may note
 * points meanwhile: what is built is of one moment as far as it goes. */
static PyObject *
build_lines(uint32_t npoints)
{
    line lines[IA_CURVE_LINES];
    uint64_t numbers[IA_CURVE_LINES] = {0};
    ia_ledger_lock();
    memcpy(lines, curves.lines, sizeof lines);
    for (int i = 0; i < IA_CURVE_LINES; i++)
        if (lines[i].taken)
            numbers[i] = ia_site_number(lines[i].site);
    ia_ledger_unlock();
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < IA_CURVE_LINES; i++)
        if (lines[i].taken)
            ia_list_add(&list, build_line(i, npoints, lines[i].since,
                                          numbers[i]));
    return list;
}

PyObject *
ia_curves_build(void)
{
    uint32_t npoints = curves.npoints;
    PyObject *points = PyList_New(0), *nodes = PyList_New(0);
    for (uint32_t i = 0; points && i < npoints; i++)
        ia_list_add(&points, build_point(&curves.points[i]));
    for (uint32_t i = 0; nodes && i < curves.nweighings; i++) {
        const weighing *w = &curves.weighings[i];
        ia_list_add(&nodes, Py_BuildValue("(NKK)", ia_counts_build(w->counts),
                                          (unsigned long long)w->nodes,
                                          (unsigned long long)w->bytes));
    }
    return Py_BuildValue("(NNN)", points, build_lines(npoints), nodes);
}
