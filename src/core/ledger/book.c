/* The ledger's book: rows of what is alive, their sites and devices. */

#include "../base/array.h"
#include "../base/device_name.h"
#include "../base/ptrmap.h"
#include "book.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

ia_lock ia_the_ledgers_lock;

static struct {
    ia_ptrmap row_of_key;
    ia_row *rows;
    uint32_t nrows, row_capacity, free_row;
    ia_site_totals *sites;
    uint32_t nsites;
    uint32_t *turned; /* owned; as many places as sites */
    uint32_t nturned, turned_capacity;
    ia_ledger_totals totals;
    ia_device_totals devices[IA_MAX_DEVICES];
    int ndevices;
    uint32_t warmup;
    uint16_t phase;
} book;

void
ia_ledger_after_fork(void)
{
    ia_the_ledgers_lock.state = IA_FREE;
    ia_stacks_after_fork();
}

int
ia_ledger_init(void)
{
    if (book.row_capacity == 0)
        book.free_row = IA_NO_ROW;
    return ia_stacks_init() < 0 ? -1 : ia_sites_init();
}

static void
begin_site(ia_site_totals *site)
{
    *site = (ia_site_totals){0};
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_reset(&site->by[c], book.warmup);
}

void
ia_ledger_reset(uint32_t warmup)
{
    ia_ptrmap_free(&book.row_of_key);
    book.nrows = 0;
    book.free_row = IA_NO_ROW;
    book.warmup = warmup;
    for (uint32_t i = 0; i < book.nsites; i++)
        begin_site(&book.sites[i]);
    book.nturned = 0;
    book.totals = (ia_ledger_totals){0};
    book.ndevices = 0;
    book.phase = 0;
}

static uint32_t
take_row(void)
{
    uint32_t i = book.free_row;
    if (i != IA_NO_ROW) {
        book.free_row = book.rows[i].stack;
        return i;
    }
    if (IA_CLEAR_ROOM(book.rows, book.row_capacity, book.nrows + 1) < 0)
        return IA_NO_ROW;
    return book.nrows++;
}

static void
give_row(uint32_t i)
{
    book.rows[i].key = 0;
    book.rows[i].stack = book.free_row;
    book.free_row = i;
}

static ia_site_totals *
site_for(uint32_t id)
{
    uint32_t known = book.nsites;
    if (id >= known &&
        (IA_CLEAR_ROOM(book.turned, book.turned_capacity, id + 1) < 0 ||
         IA_CLEAR_ROOM(book.sites, book.nsites, id + 1) < 0))
        return NULL;
    for (; known < book.nsites; known++)
        begin_site(&book.sites[known]);
    return &book.sites[id];
}

/* -- survivors -------------------------------------------------------------- */

static uint32_t
birth_of(const ia_row *row, int clock)
{
    return clock == IA_BY_POSITION ? row->position : row->generation;
}

uint32_t
ia_ledger_now(int clock)
{
    return clock == IA_BY_POSITION ? book.totals.position
                                   : book.totals.generation;
}

/* Before a birth or death is counted: what was alive until now is the least
 * of the buckets that begin. */
static void
advance(uint32_t id, ia_site_totals *site)
{
    if (site->advanced == book.totals.generation + 1)
        return;
    site->advanced = book.totals.generation + 1;
    if (site->touched != book.totals.generation) {
        site->touched = book.totals.generation;
        site->count_before = site->live_count;
    }
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_advance(&site->by[c], ia_ledger_now(c),
                             site->live_count - site->allowed_count,
                             site->live_bytes - site->allowed_bytes);
    if ((site->by[0].turned || site->by[1].turned) && !site->listed) {
        site->listed = 1;
        book.turned[book.nturned++] = id;
    }
}

static void
count_birth(ia_site_totals *site, const ia_row *row)
{
    for (int c = 0; c < IA_CLOCKS && !row->allowed; c++)
        ia_survivors_born(&site->by[c], birth_of(row, c));
}

static void
count_death(ia_site_totals *site, const ia_row *row, int by_collector)
{
    for (int c = 0; c < IA_CLOCKS && !row->allowed; c++)
        ia_survivors_died(&site->by[c], birth_of(row, c), ia_ledger_now(c),
                          site->live_count - site->allowed_count,
                          site->live_bytes - site->allowed_bytes,
                          !by_collector);
}

const uint32_t *
ia_ledger_turned(uint32_t *count)
{
    *count = book.nturned;
    return book.turned;
}

void
ia_ledger_turned_clear(void)
{
    for (uint32_t i = 0; i < book.nturned; i++) {
        ia_site_totals *site = &book.sites[book.turned[i]];
        site->by[0].turned = site->by[1].turned = site->listed = 0;
    }
    book.nturned = 0;
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
    uint32_t id = ia_stack_site(gone->stack);
    ia_site_totals *site = &book.sites[id];
    advance(id, site);
    site->live_bytes -= gone->bytes;
    site->live_count--;
    if (gone->allowed) {
        site->allowed_bytes -= gone->bytes;
        site->allowed_count--;
    }
    if (by_collector == IA_COLLECTING_ALL) {
        site->cycle_bytes += gone->bytes;
        site->cycle_count++;
    }
    count_death(site, gone, by_collector);
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
    int added = ia_ptrmap_add(&book.row_of_key, new->key, i);
    if (added <= 0) {
        give_row(i);
        if (added == 0)
            return 0;
        goto lost;
    }
    ia_row *row = &book.rows[i];
    *row = *new;
    advance(id, site);
    count_birth(site, row);
    if (site->born_count++ == 0)
        site->first_position = row->position;
    site->born_bytes += row->bytes;
    site->live_bytes += row->bytes;
    site->live_count++;
    if (row->allowed) {
        site->allowed_bytes += row->bytes;
        site->allowed_count++;
    }
    site->last_position = row->position;
    site->phase = row->phase;
    site->device = row->array ? IA_DEVICE_NUMPY : row->device;
    total_up(row->device, row->bytes, row->allowed);
    return 1;
lost:
    book.totals.lost++;
    return -1;
}

int
ia_book_rename(uintptr_t from, uintptr_t to)
{
    uint32_t i = ia_ptrmap_get(&book.row_of_key, from);
    if (ia_ptrmap_set(&book.row_of_key, to, i) < 0)
        return -1;
    ia_ptrmap_pop(&book.row_of_key, from);
    book.rows[i].key = to;
    return 0;
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
ia_ledger_tick(uint32_t position)
{
    book.totals.generation++;
    book.totals.position = position;
}

void
ia_ledger_forget_positions(void)
{
    for (uint32_t i = 0; i < book.nsites; i++) {
        ia_survivors_reset(&book.sites[i].by[IA_BY_POSITION], book.warmup);
        book.sites[i].advanced = 0;
    }
    for (uint32_t i = 0; i < book.nrows; i++) {
        ia_row *row = &book.rows[i];
        row->position = 0;
        if (row->key != 0 && !row->allowed)
            ia_survivors_born(
                &book.sites[ia_stack_site(row->stack)].by[IA_BY_POSITION], 0);
    }
    book.totals.position = 0;
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

void
ia_book_move(ia_row *row, uint16_t device)
{
    ia_device_totals *from = device_for(row->device);
    ia_device_totals *to = device_for(device);
    if (from == NULL || to == NULL)
        return;
    from->live_bytes -= row->bytes;
    if ((to->live_bytes += row->bytes) > to->peak_bytes)
        to->peak_bytes = to->live_bytes;
    row->device = device;
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
           book.turned_capacity * sizeof *book.turned +
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
    if (site >= book.nsites)
        return;
    /* It stays in the list that it is in: that has a place for each once. */
    uint8_t listed = book.sites[site].listed;
    begin_site(&book.sites[site]);
    book.sites[site].listed = listed;
}

/* Survivors of one clock, warm-up left out, as their buckets count them. */
static uint64_t
sum_of_buckets(int clock)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < book.nsites; i++)
        for (int b = 0; b < IA_BUCKETS; b++)
            sum += book.sites[i].by[clock].born[b];
    return sum;
}

int
ia_ledger_consistent(void)
{
    uint64_t bytes = 0, site_bytes = 0, survivors[IA_CLOCKS] = {0};
    uint32_t count = 0, site_count = 0;
    for (uint32_t i = 0; i < book.nrows; i++) {
        const ia_row *row = &book.rows[i];
        if (row->key == 0)
            continue;
        bytes += row->bytes;
        count++;
        for (int c = 0; c < IA_CLOCKS; c++)
            survivors[c] += !row->allowed && birth_of(row, c) >= book.warmup;
        if (ia_ptrmap_get(&book.row_of_key, row->key) != i)
            return 0;
    }
    for (uint32_t i = 0; i < book.nsites; i++) {
        site_bytes += book.sites[i].live_bytes;
        site_count += book.sites[i].live_count;
    }
    for (int c = 0; c < IA_CLOCKS; c++)
        if (survivors[c] != sum_of_buckets(c))
            return 0;
    return bytes == book.totals.live_bytes && bytes == site_bytes &&
           count == book.totals.live_count && count == site_count &&
           count == book.row_of_key.used;
}
