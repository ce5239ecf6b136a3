/* The ledger's book: rows of what is alive, their sites and devices. */

#include "../base/array.h"
#include "../base/device_name.h"
#include "../base/ptrmap.h"
#include "../base/seldom.h"
#include "book.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

#define YOUNG 256
#define GROUP (YOUNG / 64)

/* Its birthday is the present tick. */
typedef struct {
    uintptr_t key; /* 0 = free */
    uint64_t bytes;
    uint32_t stack;
    uint32_t site;
    uint16_t device;
    uint16_t phase;
} young_row;

static struct {
    ia_ptrmap row_of_key;
    ia_row *rows;
    uint32_t nrows, row_capacity, free_row;
    uint32_t room; /* rows and keys for so many, the young among them */
    uint64_t groups; /* a bit for each that may have somebody young */
    young_row young[YOUNG];
    ia_site_totals *sites;
    uint32_t nsites;
    uint32_t *turned; /* owned; as many places as sites */
    uint32_t nturned, turned_capacity;
    ia_ledger_totals totals;
    ia_device_totals devices[IA_MAX_DEVICES];
    int ndevices;
    uint32_t warmup;
    uint32_t forgotten; /* generation in which positions began anew */
    uint16_t phase;
} book;

uint32_t ia_book_ready_sites;

void
ia_ledger_after_fork(void)
{
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
    memset(book.young, 0, sizeof book.young);
    book.groups = 0;
    book.room = 0;
    ia_book_ready_sites = 0;
    book.nrows = 0;
    book.free_row = IA_NO_ROW;
    book.warmup = warmup;
    for (uint32_t i = 0; i < book.nsites; i++)
        begin_site(&book.sites[i]);
    book.nturned = 0;
    book.totals = (ia_ledger_totals){0};
    book.ndevices = 0;
    book.forgotten = 0;
    book.phase = 0;
    ia_stacks_forget_lost();
}

/* Whoever enters, young or not, has a row and a place for its key, so that
 * growing up never lacks memory. */
static IA_SELDOM int
make_room(void)
{
    uint32_t wanted = book.totals.live_count + 1 + IA_UNPOSTED;
    ia_book_ready_sites = 0;
    if (IA_CLEAR_ROOM(book.rows, book.row_capacity, wanted) < 0 ||
        ia_ptrmap_reserve(&book.row_of_key, wanted) < 0)
        return -1;
    size_t keys = ia_ptrmap_room(&book.row_of_key);
    book.room = keys < book.row_capacity ? (uint32_t)keys : book.row_capacity;
    ia_book_ready_sites = book.nsites;
    return 0;
}

static inline int
is_room(void)
{
    uint32_t live = book.totals.live_count;
    return (live + IA_UNPOSTED < book.room && ia_book_ready_sites != 0) ||
           make_room() == 0 || live < book.room;
}

/* There is room. */
static uint32_t
take_row(void)
{
    uint32_t i = book.free_row;
    if (i == IA_NO_ROW)
        return book.nrows++;
    book.free_row = book.rows[i].stack;
    return i;
}

static void
give_row(uint32_t i)
{
    book.rows[i].key = 0;
    book.rows[i].stack = book.free_row;
    book.free_row = i;
}

static IA_SELDOM int
make_sites(uint32_t count)
{
    uint32_t known = book.nsites;
    if (IA_CLEAR_ROOM(book.turned, book.turned_capacity, count) < 0 ||
        IA_CLEAR_ROOM(book.sites, book.nsites, count) < 0)
        return -1;
    for (; known < book.nsites; known++)
        begin_site(&book.sites[known]);
    if (ia_book_ready_sites != 0)
        ia_book_ready_sites = book.nsites;
    return 0;
}

static inline int
has_site(uint32_t id)
{
    return id < book.nsites || make_sites(id + 1) == 0;
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

static __attribute__((noinline)) void
begin_buckets(uint32_t id, ia_site_totals *site)
{
    site->advanced = book.totals.generation + 1;
    if (site->touched != book.totals.generation) {
        site->touched = book.totals.generation;
        site->count_before = site->live_count;
    }
    site->least_count = site->live_count - site->allowed_count;
    site->least_bytes = site->live_bytes - site->allowed_bytes;
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_advance(&site->by[c], ia_ledger_now(c),
                             site->least_count, site->least_bytes);
    if ((site->by[0].turned || site->by[1].turned) && !site->listed) {
        site->listed = 1;
        book.turned[book.nturned++] = id;
    }
}

/* Before a birth or death is counted: what was alive until now is the least
 * of the buckets that begin. */
static inline void
advance(uint32_t id, ia_site_totals *site)
{
    if (site->advanced != book.totals.generation + 1)
        begin_buckets(id, site);
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
                          !by_collector);
}

/* After a death. */
static inline void
note_least(ia_site_totals *site)
{
    uint32_t count = site->live_count - site->allowed_count;
    uint64_t bytes = site->live_bytes - site->allowed_bytes;
    if (count >= site->least_count && bytes >= site->least_bytes)
        return;
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_left(&site->by[c], ia_ledger_now(c), count, bytes);
    if (count < site->least_count)
        site->least_count = count;
    if (bytes < site->least_bytes)
        site->least_bytes = bytes;
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

static IA_SELDOM ia_device_totals *
another_device(uint16_t device)
{
    for (int i = 1; i < book.ndevices; i++)
        if (book.devices[i].device == device)
            return &book.devices[i];
    if (book.ndevices == IA_MAX_DEVICES)
        return NULL;
    book.devices[book.ndevices] = (ia_device_totals){.device = device};
    return &book.devices[book.ndevices++];
}

/* The first is the one that most are on. */
static inline ia_device_totals *
device_for(uint16_t device)
{
    return book.ndevices > 0 && book.devices[0].device == device
               ? &book.devices[0]
               : another_device(device);
}

static inline void
total_up(uint16_t device, uint64_t bytes)
{
    ia_ledger_totals *t = &book.totals;
    ia_device_totals *d = device_for(device);
    t->live_bytes += bytes;
    t->live_count++;
    t->births++;
    if (t->live_bytes > t->peak_bytes)
        t->peak_bytes = t->live_bytes;
    if (d != NULL && (d->live_bytes += bytes) > d->peak_bytes)
        d->peak_bytes = d->live_bytes;
}

static inline void
total_down(uint16_t device, uint64_t bytes)
{
    ia_device_totals *d = device_for(device);
    book.totals.live_bytes -= bytes;
    book.totals.live_count--;
    book.totals.deaths++;
    if (d != NULL)
        d->live_bytes -= bytes;
}

static inline void
site_up(ia_site_totals *site, uint64_t bytes, uint32_t position)
{
    if (site->born_count++ == 0)
        site->first_position = position;
    site->born_bytes += bytes;
    site->live_bytes += bytes;
    site->live_count++;
    site->last_position = position;
}

static inline void
site_down(ia_site_totals *site, uint64_t bytes, int by_collector)
{
    site->live_bytes -= bytes;
    site->live_count--;
    if (by_collector == IA_COLLECTING_ALL) {
        site->cycle_bytes += bytes;
        site->cycle_count++;
    }
}

/* -- the young -------------------------------------------------------------- */

/* Where one by that key would be. */
static inline uint32_t
young_place(uintptr_t key)
{
    return (uint32_t)(ia_ptrmap_hash(key) >> 56);
}

static inline young_row *
find_young(uintptr_t key)
{
    young_row *y = &book.young[young_place(key)];
    return y->key == key && key != 0 ? y : NULL;
}

static ia_row
row_of_young(const young_row *y)
{
    return (ia_row){
        .key = y->key,
        .bytes = y->bytes,
        .stack = y->stack,
        .position = book.totals.position,
        .generation = book.totals.generation,
        .device = y->device,
        .phase = y->phase,
        .array = y->device == IA_DEVICE_NUMPY, /* none is shown yet */
    };
}

/* Who is young has room, and nobody else its key. */
static __attribute__((noinline)) ia_row *
grow_up(young_row *y)
{
    uint32_t i = take_row();
    ia_row *row = &book.rows[i];
    *row = row_of_young(y);
    ia_ptrmap_set(&book.row_of_key, row->key, i);
    count_birth(&book.sites[y->site], row);
    y->key = 0;
    return row;
}

static void
grow_up_all(void)
{
    for (; book.groups != 0; book.groups &= book.groups - 1) {
        size_t group = (size_t)__builtin_ctzll(book.groups);
        young_row *first = &book.young[group * GROUP];
        for (young_row *y = first; y < first + GROUP; y++)
            if (y->key != 0)
                grow_up(y);
    }
}

/* A birth of this tick, in the totals: its site's. */
static inline ia_site_totals *
count_now(uint32_t id, uint64_t bytes, uint16_t device)
{
    ia_site_totals *site = &book.sites[id];
    advance(id, site);
    site_up(site, bytes, book.totals.position);
    site->phase = book.phase;
    site->device = device;
    total_up(device, bytes);
    return site;
}

int
ia_book_enter_young(uintptr_t key, uint64_t bytes, uint32_t stack, uint32_t id,
                    uint16_t device)
{
    uint32_t place = young_place(key);
    young_row *y = &book.young[place];
    if (!has_site(id) || !is_room()) {
        book.totals.lost++;
        return -1;
    }
    if (y->key == key || ia_ptrmap_has(&book.row_of_key, key))
        return 0;
    if (y->key != 0)
        grow_up(y);
    y->key = key;
    y->bytes = bytes;
    y->stack = stack;
    y->site = id;
    y->device = device;
    y->phase = book.phase;
    book.groups |= UINT64_C(1) << place / GROUP;
    count_now(id, bytes, device);
    return 1;
}

static inline void
strike_out_young(young_row *y, int by_collector)
{
    ia_site_totals *site = &book.sites[y->site];
    y->key = 0;
    site_down(site, y->bytes, by_collector);
    note_least(site);
    total_down(y->device, y->bytes);
}

int
ia_book_strike_young(uintptr_t key, int by_collector)
{
    young_row *y = find_young(key);
    if (y == NULL)
        return 0;
    strike_out_young(y, by_collector);
    return 1;
}

/* All that changes are the most that was alive, and how many there were. */
int
ia_book_pass(uintptr_t key, uint64_t bytes, uint32_t id, uint16_t device,
             int by_collector)
{
    if (id >= book.nsites || find_young(key) != NULL ||
        ia_ptrmap_has(&book.row_of_key, key))
        return 0;
    ia_site_totals *site = count_now(id, bytes, device);
    site_down(site, bytes, by_collector);
    total_down(device, bytes);
    return 1;
}

/* -- births and deaths ------------------------------------------------------ */

/* No birth and no death. */
void
ia_book_resize(ia_row *row, uint64_t bytes)
{
    uint32_t id = ia_stack_site(row->stack);
    ia_site_totals *site = &book.sites[id];
    ia_device_totals *device = device_for(row->device);
    advance(id, site);
    uint64_t more = bytes - row->bytes; /* modulo 2^64 where it is less */
    site->live_bytes += more;
    book.totals.live_bytes += more;
    if (row->allowed) {
        site->allowed_bytes += more;
        book.totals.allowed_bytes += more;
    }
    if (book.totals.live_bytes > book.totals.peak_bytes)
        book.totals.peak_bytes = book.totals.live_bytes;
    if (device != NULL && (device->live_bytes += more) > device->peak_bytes)
        device->peak_bytes = device->live_bytes;
    row->bytes = bytes;
    note_least(site);
}

static int
strike_row(uintptr_t key, int by_collector, ia_row *gone)
{
    uint32_t i = ia_ptrmap_pop(&book.row_of_key, key);
    if (i == IA_PTRMAP_NONE)
        return 0;
    ia_row row = book.rows[i];
    uint32_t id = ia_stack_site(row.stack);
    ia_site_totals *site = &book.sites[id];
    advance(id, site);
    site_down(site, row.bytes, by_collector);
    if (row.allowed) {
        site->allowed_bytes -= row.bytes;
        site->allowed_count--;
        book.totals.allowed_bytes -= row.bytes;
    }
    note_least(site);
    count_death(site, &row, by_collector);
    total_down(row.device, row.bytes);
    give_row(i);
    *gone = row;
    return 1;
}

int
ia_book_strike(uintptr_t key, int by_collector, ia_row *gone)
{
    young_row *y = find_young(key);
    if (y == NULL)
        return strike_row(key, by_collector, gone);
    *gone = row_of_young(y);
    strike_out_young(y, by_collector);
    return 1;
}

int
ia_book_enter(const ia_row *new)
{
    uint32_t id = ia_stack_site(new->stack);
    if (!has_site(id) || !is_room()) {
        book.totals.lost++;
        return -1;
    }
    ia_site_totals *site = &book.sites[id];
    if (find_young(new->key) || ia_ptrmap_has(&book.row_of_key, new->key))
        return 0;
    uint32_t i = take_row();
    book.rows[i] = *new;
    ia_ptrmap_set(&book.row_of_key, new->key, i);
    advance(id, site);
    count_birth(site, new);
    site_up(site, new->bytes, new->position);
    if (new->allowed) {
        site->allowed_bytes += new->bytes;
        site->allowed_count++;
        book.totals.allowed_bytes += new->bytes;
    }
    site->phase = new->phase;
    site->device = new->array ? IA_DEVICE_NUMPY : new->device;
    total_up(new->device, new->bytes);
    return 1;
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
    book.phase = phase;
}

uint16_t
ia_ledger_phase(void)
{
    return book.phase;
}

void
ia_ledger_tick(uint32_t position)
{
    grow_up_all();
    book.totals.generation++;
    book.totals.position = position;
}

void
ia_ledger_forget_positions(void)
{
    grow_up_all();
    for (uint32_t i = 0; i < book.nsites; i++) {
        ia_survivors_reset(&book.sites[i].by[IA_BY_POSITION], book.warmup);
        book.sites[i].advanced = book.sites[i].grows = 0;
    }
    for (uint32_t i = 0; i < book.nrows; i++) {
        ia_row *row = &book.rows[i];
        row->position = 0;
        if (row->key != 0 && !row->allowed)
            ia_survivors_born(
                &book.sites[ia_stack_site(row->stack)].by[IA_BY_POSITION], 0);
    }
    book.totals.position = 0;
    book.forgotten = book.totals.generation;
}

uint32_t
ia_ledger_position_then(uint32_t position, uint32_t generation)
{
    return generation > book.forgotten ? position : 0;
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
    grow_up_all();
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
    young_row *y = find_young(key);
    if (y != NULL)
        return grow_up(y);
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
    grow_up_all();
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
    grow_up_all();
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
    grow_up_all();
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
