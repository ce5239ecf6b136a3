/* The ledger's book: rows of what is alive, their sites and devices. */

#include "../base/ptrmap.h"
#include "book.h"
#include "sites.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The storages of one site and one generation: what a death takes one off. */
typedef struct {
    uint32_t site;
    uint32_t generation;
    uint32_t count;
    uint32_t next_free;
} cohort;

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
    ia_stacks_after_fork();
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
    return ia_stacks_init() < 0 ? -1 : ia_sites_init();
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

int
ia_book_strike(uintptr_t key, int by_collector, ia_row *gone)
{
    uint32_t i = ia_ptrmap_pop(&book.row_of_key, key);
    if (i == IA_PTRMAP_NONE)
        return 0;
    *gone = book.rows[i];
    ia_site_totals *site = &book.sites[ia_stack_site(gone->stack)];
    site->live_bytes -= gone->bytes;
    site->live_count--;
    if (by_collector) {
        site->cycle_bytes += gone->bytes;
        site->cycle_count++;
        if (site->last_cycle != gone->generation + 1)
            site->cycle_generations++;
        site->last_cycle = gone->generation + 1;
    }
    count_out(site, gone->cohort);
    total_down(gone->device, gone->bytes, gone->allowed);
    give_row(i);
    return 1;
}

int
ia_book_enter(const ia_row *new)
{
    uint32_t id = ia_stack_site(new->stack);
    ia_site_totals *site = site_for(id);
    uint32_t i = site != NULL ? take_row() : IA_NO_ROW;
    if (i == IA_NO_ROW)
        goto lost;
    if (ia_ptrmap_set(&book.row_of_key, new->key, i) < 0) {
        give_row(i);
        goto lost;
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
    return 0;
lost:
    book.totals.lost++;
    return -1;
}

void
ia_ledger_set_phase(uint16_t phase)
{
    ia_ledger_lock();
    book.phase = phase;
    ia_ledger_unlock();
}

uint16_t
ia_ledger_phase(void)
{
    return book.phase;
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
           book.nsites * sizeof *book.sites + ia_stacks_bytes() +
           ia_sites_bytes() + ia_sources_bytes();
}

void
ia_book_mark_stacks(void)
{
    for (uint32_t i = 0; i < book.nrows; i++)
        if (book.rows[i].key != 0)
            ia_stack_mark(book.rows[i].stack);
}

void
ia_book_forget_site(uint32_t site)
{
    if (site < book.nsites)
        book.sites[site] = (ia_site_totals){0};
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
