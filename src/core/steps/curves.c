/* The run's curves: what memory was like at boundaries, thinned. */

#include "../base/compat.h"
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
    ia_point at;
    uint64_t lines[IA_CURVE_LINES];
} point;

typedef struct {
    uint32_t site;
    uint32_t since; /* first point that has it */
    uint64_t most;  /* bytes so far */
    int taken;
} line;

static struct {
    point points[POINTS];
    line lines[IA_CURVE_LINES];
    ia_curve_nodes weighings[WEIGHINGS];
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
read_devices(ia_point *p)
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
note_trends(const ia_point *p, int fresh)
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
    point *noted = &curves.points[curves.npoints];
    ia_point *p = &noted->at;
    *noted = (point){.at = {.seconds = seconds,
                            .resident_bytes = curves.resident_bytes,
                            .tick = tick,
                            .optimizer = counts[IA_EVENT_OPTIMIZER],
                            .backward = counts[IA_EVENT_BACKWARD],
                            .module = counts[IA_EVENT_MODULE],
                            .compiled = counts[IA_EVENT_COMPILED],
                            .manual = counts[IA_EVENT_MANUAL],
                            .turn = counts[IA_EVENT_TURN],
                            .phase = ia_ledger_phase()}};
    ia_ledger_lock();
    p->live_bytes = ia_ledger_totals_now()->live_bytes;
    p->host_bytes = host_bytes();
    p->heap_bytes = heap_beside(heap, p->host_bytes);
    choose_lines(tick);
    read_lines(noted);
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
    ia_curve_nodes *w = &curves.weighings[curves.nweighings++];
    *w = (ia_curve_nodes){.nodes = nodes, .bytes = bytes};
    memcpy(w->counts, counts, sizeof w->counts);
}

/* -- for Python ------------------------------------------------------------ */

PyObject *
ia_counts_build(const uint32_t *counts)
{
    return Py_BuildValue("(IIIIII)", counts[IA_EVENT_OPTIMIZER],
                         counts[IA_EVENT_BACKWARD], counts[IA_EVENT_MODULE],
                         counts[IA_EVENT_COMPILED], counts[IA_EVENT_MANUAL],
                         counts[IA_EVENT_TURN]);
}

uint32_t
ia_curves_count(void)
{
    return curves.npoints;
}

uint32_t
ia_curves_copy(ia_point *points, uint64_t *lines, uint32_t room)
{
    uint32_t n = curves.npoints < room ? curves.npoints : room;
    for (uint32_t i = 0; i < n; i++) {
        points[i] = curves.points[i].at;
        memcpy(&lines[(size_t)i * IA_CURVE_LINES], curves.points[i].lines,
               sizeof curves.points[i].lines);
    }
    return n;
}

int
ia_curves_lines(ia_curve_line *out)
{
    int n = 0;
    ia_ledger_lock();
    for (uint32_t i = 0; i < IA_CURVE_LINES; i++) {
        const line *l = &curves.lines[i];
        if (l->taken)
            out[n++] = (ia_curve_line){ia_site_number(l->site), l->since, i};
    }
    ia_ledger_unlock();
    return n;
}

uint32_t
ia_curves_nodes(const ia_curve_nodes **nodes)
{
    *nodes = curves.weighings;
    return curves.nweighings;
}
