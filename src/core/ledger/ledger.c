/* The ledger of live storages. */

#include "ledger.h"

#include "../base/ptrmap.h"
#include "ring.h"
#include "sites.h"
#include "intervals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The storages of one site and one generation: what a death takes one off. */
typedef struct {
    uint32_t site;
    uint32_t generation;
    uint32_t count;
    uint32_t next_free;
} cohort;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int collecting;
static _Thread_local uint16_t allowed_label;
/* Stack of this thread's last birth and the frame it was in, until a tensor
 * object born in the same place claims it. */
static _Thread_local uint32_t fresh_stack;
static _Thread_local ia_raw_frame fresh_frame;

/* One hook call in SAMPLE is timed, and counts for all of them. */
#define SAMPLE 128
static _Thread_local uint32_t ticks;
static atomic_uint_fast64_t hook_ns;

static uint64_t
clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t
ia_ledger_hook_begin(void)
{
    return ++ticks % SAMPLE == 0 ? clock_ns() : 0;
}

void
ia_ledger_hook_end(uint64_t begin)
{
    if (begin != 0)
        atomic_fetch_add_explicit(&hook_ns, (clock_ns() - begin) * SAMPLE,
                                  memory_order_relaxed);
}

static struct {
    ia_ptrmap row_of_key;
    ia_row *rows;
    uint32_t nrows, row_capacity, free_row;
    cohort *cohorts; /* 0 is the one that nothing counts in */
    uint32_t ncohorts, cohort_capacity, free_cohort;
    ia_site_totals *sites;
    uint32_t nsites;
    ia_ledger_totals totals;
    ia_device_totals devices[IA_MAX_DEVICES];
    int ndevices;
    uint32_t warmup;
    uint16_t phase;
} book;

void
ia_ledger_lock(void)
{
    pthread_mutex_lock(&lock);
}

void
ia_ledger_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void
ia_ledger_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}

int
ia_ledger_init(void)
{
    if (book.cohorts != NULL)
        return 0;
    book.cohorts = calloc(64, sizeof *book.cohorts);
    if (book.cohorts == NULL)
        return -1;
    book.cohort_capacity = 64;
    book.ncohorts = 1;
    book.free_row = book.free_cohort = IA_NO_ROW;
    return ia_sites_init();
}

void
ia_ledger_reset(uint32_t warmup)
{
    ia_ptrmap_free(&book.row_of_key);
    book.nrows = 0;
    book.ncohorts = 1;
    book.cohorts[0] = (cohort){0};
    book.free_row = book.free_cohort = IA_NO_ROW;
    if (book.sites != NULL)
        memset(book.sites, 0, book.nsites * sizeof *book.sites);
    book.totals = (ia_ledger_totals){0};
    book.ndevices = 0;
    book.warmup = warmup;
    book.phase = 0;
}

static int
reserve(void **array, uint32_t *capacity, uint32_t wanted, size_t item)
{
    uint32_t bigger = *capacity ? *capacity : 64;
    while (bigger < wanted)
        bigger *= 2;
    if (bigger == *capacity)
        return 0;
    char *moved = realloc(*array, bigger * item);
    if (moved == NULL)
        return -1;
    memset(moved + *capacity * item, 0, (bigger - *capacity) * item);
    *array = moved;
    *capacity = bigger;
    return 0;
}

static uint32_t
take_row(void)
{
    uint32_t i = book.free_row;
    if (i != IA_NO_ROW) {
        book.free_row = book.rows[i].stack;
        return i;
    }
    if (reserve((void **)&book.rows, &book.row_capacity, book.nrows + 1,
                sizeof *book.rows) < 0)
        return IA_NO_ROW;
    return book.nrows++;
}

static void
give_row(uint32_t i)
{
    book.rows[i] = (ia_row){.stack = book.free_row};
    book.free_row = i;
}

static uint32_t
take_cohort(uint32_t site, uint32_t generation)
{
    uint32_t i = book.free_cohort;
    if (i != IA_NO_ROW) {
        book.free_cohort = book.cohorts[i].next_free;
    } else {
        if (reserve((void **)&book.cohorts, &book.cohort_capacity,
                    book.ncohorts + 1, sizeof *book.cohorts) < 0)
            return 0;
        i = book.ncohorts++;
    }
    book.cohorts[i] = (cohort){site, generation, 0, 0};
    return i;
}

/* The cohort a birth counts in.  A site remembers only that of its newest
 * generation: births noticed late are of the current or the last one. */
static uint32_t
cohort_for(ia_site_totals *site, uint32_t id, uint32_t generation)
{
    if (generation < book.warmup)
        return 0;
    if (site->cohort != 0 &&
        book.cohorts[site->cohort].generation == generation)
        return site->cohort;
    uint32_t i = take_cohort(id, generation);
    if (i != 0)
        site->cohort = i;
    return i;
}

static void
count_in(ia_site_totals *site, uint32_t i)
{
    if (i != 0 && book.cohorts[i].count++ == 0)
        site->generations++;
}

static void
count_out(ia_site_totals *site, uint32_t i)
{
    if (i == 0 || --book.cohorts[i].count > 0)
        return;
    site->generations--;
    if (site->cohort == i)
        site->cohort = 0;
    book.cohorts[i].next_free = book.free_cohort;
    book.free_cohort = i;
}

static ia_site_totals *
site_for(uint32_t id)
{
    if (id >= book.nsites &&
        reserve((void **)&book.sites, &book.nsites, id + 1,
                sizeof *book.sites) < 0)
        return NULL;
    return &book.sites[id];
}

static ia_device_totals *
device_for(uint16_t device)
{
    for (int i = 0; i < book.ndevices; i++)
        if (book.devices[i].device == device)
            return &book.devices[i];
    if (book.ndevices == IA_MAX_DEVICES)
        return NULL;
    book.devices[book.ndevices] = (ia_device_totals){.device = device};
    return &book.devices[book.ndevices++];
}

static void
total_up(uint16_t device, uint64_t bytes, int allowed)
{
    ia_ledger_totals *t = &book.totals;
    ia_device_totals *d = device_for(device);
    t->live_bytes += bytes;
    t->live_count++;
    t->births++;
    if (allowed)
        t->allowed_bytes += bytes;
    if (t->live_bytes > t->peak_bytes)
        t->peak_bytes = t->live_bytes;
    if (d != NULL && (d->live_bytes += bytes) > d->peak_bytes)
        d->peak_bytes = d->live_bytes;
}

static void
total_down(uint16_t device, uint64_t bytes, int allowed)
{
    ia_device_totals *d = device_for(device);
    book.totals.live_bytes -= bytes;
    book.totals.live_count--;
    book.totals.deaths++;
    if (allowed)
        book.totals.allowed_bytes -= bytes;
    if (d != NULL)
        d->live_bytes -= bytes;
}

static void
remove_row(uint32_t i)
{
    ia_row *row = &book.rows[i];
    ia_site_totals *site = &book.sites[ia_stack_site(row->stack)];
    site->live_bytes -= row->bytes;
    site->live_count--;
    if (collecting) {
        site->cycle_bytes += row->bytes;
        site->cycle_count++;
        if (site->last_cycle != row->generation + 1)
            site->cycle_generations++;
        site->last_cycle = row->generation + 1;
    }
    count_out(site, row->cohort);
    total_down(row->device, row->bytes, row->allowed);
    if (ia_windows_open)
        ia_windows_died(row->device, row->bytes);
    if (ia_ring_on)
        ia_ring_note(IA_RING_DEATH, row);
    give_row(i);
}

static int
add_row(const ia_row *new)
{
    uint32_t id = ia_stack_site(new->stack);
    ia_site_totals *site = site_for(id);
    uint32_t stale = ia_ptrmap_pop(&book.row_of_key, new->key);
    if (stale != IA_PTRMAP_NONE)
        remove_row(stale); /* its death was not seen */
    uint32_t i = site != NULL ? take_row() : IA_NO_ROW;
    if (i == IA_NO_ROW)
        return -1;
    if (ia_ptrmap_set(&book.row_of_key, new->key, i) < 0) {
        give_row(i);
        return -1;
    }
    ia_row *row = &book.rows[i];
    *row = *new;
    row->cohort = row->allowed ? 0 : cohort_for(site, id, row->generation);
    count_in(site, row->cohort);
    if (site->born_count++ == 0)
        site->first_generation = row->generation;
    site->born_bytes += row->bytes;
    site->live_bytes += row->bytes;
    site->live_count++;
    site->last_generation = row->generation;
    site->phase = row->phase;
    total_up(row->device, row->bytes, row->allowed);
    if (ia_windows_open)
        ia_windows_born(row->device, row->bytes, row->stack);
    if (ia_ring_on)
        ia_ring_note(IA_RING_BIRTH, row);
    return 0;
}

uint32_t
ia_ledger_add(const ia_place *place, uintptr_t key, size_t bytes,
              uint16_t device)
{
    ia_row row = {
        .key = key,
        .bytes = bytes,
        .device = device,
        .stack = ia_place_intern(place),
        .generation = book.totals.generation,
        .allowed = allowed_label,
        .phase = book.phase,
    };
    if (add_row(&row) < 0)
        book.totals.lost++;
    fresh_stack = place->raw.count > 0 ? row.stack : IA_NO_STACK;
    if (fresh_stack != IA_NO_STACK)
        fresh_frame = place->raw.frames[0];
    return row.stack;
}

void
ia_ledger_born(uintptr_t key, size_t bytes, uint16_t device)
{
    ia_place place;
    uint64_t begin = ia_ledger_hook_begin();
    ia_place_capture(&place);
    ia_ledger_lock();
    ia_ledger_add(&place, key, bytes, device);
    ia_ledger_unlock();
    ia_ledger_hook_end(begin);
}

void
ia_ledger_born_at(uintptr_t key, size_t bytes, uint16_t device,
                  const ia_birth *birth)
{
    ia_ledger_lock();
    ia_row row = {
        .key = key,
        .bytes = bytes,
        .device = device,
        .stack = birth->stack,
        .generation = birth->generation,
        .allowed = birth->allowed,
        .phase = birth->phase,
    };
    if (add_row(&row) < 0)
        book.totals.lost++;
    ia_ledger_unlock();
}

void
ia_ledger_remove(uintptr_t key)
{
    uint32_t i = ia_ptrmap_pop(&book.row_of_key, key);
    if (i != IA_PTRMAP_NONE)
        remove_row(i);
}

void
ia_ledger_died(uintptr_t key)
{
    uint64_t begin = ia_ledger_hook_begin();
    ia_ledger_lock();
    ia_ledger_remove(key);
    ia_ledger_unlock();
    ia_ledger_hook_end(begin);
}

static uint32_t
stack_of_birth(void)
{
    uint32_t stack = fresh_stack;
    ia_raw_frame top;
    ia_stack_top(&top);
    fresh_stack = IA_NO_STACK;
    if (stack != IA_NO_STACK && top.code == fresh_frame.code &&
        top.instr == fresh_frame.instr)
        return stack;
    ia_raw_stack raw;
    ia_stack_capture(&raw);
    ia_ledger_lock();
    stack = ia_stack_intern(&raw);
    ia_ledger_unlock();
    return stack;
}

ia_birth
ia_ledger_birth(void)
{
    uint32_t stack = stack_of_birth();
    ia_node_mark next;
    if (ia_place_next(&next)) {
        ia_ledger_lock();
        ia_places_note_nodes(&next, stack);
        ia_ledger_unlock();
    }
    /* The GIL guards generation and phase against changes. */
    return (ia_birth){stack, book.totals.generation, allowed_label,
                      book.phase};
}

uint64_t
ia_ledger_hook_ns(void)
{
    return atomic_load_explicit(&hook_ns, memory_order_relaxed);
}

void
ia_ledger_set_collecting(int on)
{
    collecting = on;
}

uint16_t
ia_ledger_set_allowed(uint16_t label)
{
    uint16_t before = allowed_label;
    allowed_label = label;
    return before;
}

void
ia_ledger_set_phase(uint16_t phase)
{
    ia_ledger_lock();
    book.phase = phase;
    ia_ledger_unlock();
}

void
ia_ledger_next_generation(void)
{
    book.totals.generation++;
}

void
ia_ledger_restart_warmup(uint32_t warmup)
{
    for (uint32_t i = 0; i < book.nrows; i++)
        book.rows[i].cohort = 0;
    for (uint32_t i = 0; i < book.nsites; i++)
        book.sites[i].generations = book.sites[i].cohort = 0;
    book.ncohorts = 1;
    book.free_cohort = IA_NO_ROW;
    book.warmup = book.totals.generation + warmup;
}

uint32_t
ia_ledger_warmup(void)
{
    return book.warmup;
}

const ia_ledger_totals *
ia_ledger_totals_now(void)
{
    return &book.totals;
}

ia_site_totals *
ia_ledger_site(uint32_t site)
{
    return site < book.nsites ? &book.sites[site] : NULL;
}

uint32_t
ia_ledger_sites(void)
{
    uint32_t known = ia_site_count();
    return known < book.nsites ? known : book.nsites;
}

ia_row *
ia_ledger_find(uintptr_t key)
{
    uint32_t i = key ? ia_ptrmap_get(&book.row_of_key, key) : IA_PTRMAP_NONE;
    return i == IA_PTRMAP_NONE ? NULL : &book.rows[i];
}

ia_row *
ia_ledger_rows(uint32_t *count)
{
    *count = book.nrows;
    return book.rows;
}

int
ia_ledger_devices(const ia_device_totals **out)
{
    *out = book.devices;
    return book.ndevices;
}

size_t
ia_ledger_bytes(void)
{
    return ia_ptrmap_bytes(&book.row_of_key) +
           book.row_capacity * sizeof *book.rows +
           book.cohort_capacity * sizeof *book.cohorts +
           book.nsites * sizeof *book.sites + ia_sites_bytes();
}

int
ia_ledger_consistent(void)
{
    uint64_t bytes = 0, site_bytes = 0;
    uint32_t count = 0, site_count = 0, generations = 0, cohorts = 0;
    for (uint32_t i = 0; i < book.nrows; i++) {
        if (book.rows[i].key == 0)
            continue;
        bytes += book.rows[i].bytes;
        count++;
        if (ia_ptrmap_get(&book.row_of_key, book.rows[i].key) != i)
            return 0;
    }
    for (uint32_t i = 0; i < book.nsites; i++) {
        site_bytes += book.sites[i].live_bytes;
        site_count += book.sites[i].live_count;
        generations += book.sites[i].generations;
    }
    for (uint32_t i = 1; i < book.ncohorts; i++)
        cohorts += book.cohorts[i].count > 0;
    return bytes == book.totals.live_bytes && bytes == site_bytes &&
           count == book.totals.live_count && count == site_count &&
           generations == cohorts && count == book.row_of_key.used;
}
