/* The ledger's book: what is alive, with exact totals per site and device.
 *
 * Everything expects the ledger's lock to be held (journal.h).
 *
 * Most storages die before their tick ends.  They are young until then: in all
 * totals, and in a small table of their own by a hash of their key.  What is
 * in another's way there, and what is alive when the tick ends or when rows are
 * asked for, gets a row and its place among the survivors.
 */
#ifndef IA_BOOK_H
#define IA_BOOK_H

#include "survivors.h"

#include <stddef.h>
#include <stdint.h>

/* The two clocks.  Both only ever go forward.  Every boundary event is a tick;
 * the position counts those of the strongest kind seen so far.  Ages and
 * lifetimes are measured in positions, or in ticks while that kind is silent
 * for long. */
typedef enum {
    IA_BY_POSITION,
    IA_BY_TICK,
    IA_CLOCKS,
} ia_clock;

#define IA_NO_ROW UINT32_MAX
/* Births and deaths that may wait for being entered, as many as a small step
 * makes. */
#define IA_UNPOSTED 64

/* Births at sites below this need no memory to be entered, so many as may
 * wait; 0 where memory was short. */
extern uint32_t ia_book_ready_sites;
#define IA_MAX_DEVICES 32

/* How the collector runs: through what is young, or through all there is. */
enum { IA_NOT_COLLECTING, IA_COLLECTING_YOUNG, IA_COLLECTING_ALL };

/* One live storage. */
typedef struct {
    uintptr_t key; /* 0 = free row; what ia_storage calls data or impl */
    uint64_t bytes;
    uint32_t stack;
    uint32_t position; /* at its birth, as `generation` */
    uint32_t generation; /* tick */
    uint32_t walk; /* number of the last walk that reached it */
    uint16_t device;
    uint16_t allowed; /* label of the allow() block it was born in, or 0 */
    uint16_t phase;
    uint16_t array; /* NumPy's block, of whatever device it counts by now */
} ia_row;

/* Exact totals of one site. */
typedef struct {
    uint64_t live_bytes;
    uint64_t born_bytes;
    uint64_t cycle_bytes; /* died while the collector went through all */
    uint64_t allowed_bytes; /* live, and kept on purpose */
    uint32_t live_count;
    uint32_t allowed_count;
    uint32_t born_count;
    uint32_t cycle_count;
    uint32_t count_before; /* live ones when the tick `touched` began */
    uint32_t touched;      /* tick of the last birth or death */
    uint32_t advanced;     /* tick + 1 at which `by` was brought up to now */
    uint32_t least_count;  /* since then, allowed ones left out; where there */
    uint64_t least_bytes;  /* is no less, `by` has no lower minimum to note */
    uint32_t first_position; /* of the first birth ever */
    uint32_t last_position;  /* of the last birth */
    uint16_t phase;          /* of the last birth */
    uint16_t device;         /* of the last birth, NumPy's its own */
    uint8_t listed;          /* among those whose bucket has turned */
    uint8_t grows;           /* it did when its bucket turned last */
    ia_survivors by[IA_CLOCKS];
} ia_site_totals;

typedef struct {
    uint16_t device;
    uint64_t live_bytes;
    uint64_t peak_bytes;
} ia_device_totals;

typedef struct {
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t allowed_bytes;
    uint64_t births;
    uint64_t deaths;
    uint64_t lost; /* births that memory was too short to record */
    uint32_t live_count;
    uint32_t generation; /* tick */
    uint32_t position;
} ia_ledger_totals;

int ia_ledger_init(void);
/* In the child of a fork: who had something pinned may be gone. */
void ia_ledger_after_fork(void);
/* Forgets all rows and totals; sites keep their ids. */
void ia_ledger_reset(uint32_t warmup);

/* Enters a storage: 1, 0 where its key is in the book, or -1 when memory is
 * short: the birth is counted as lost. */
int ia_book_enter(const ia_row *);
/* The same for one that is born now, by nobody who allows it. */
int ia_book_enter_young(uintptr_t key, uint64_t bytes, uint32_t stack,
                        uint32_t site, uint16_t device);
/* For one that died with nothing in between: 1, or 0 where its key is in the
 * book, or there is no such site yet. */
int ia_book_pass(uintptr_t key, uint64_t bytes, uint32_t site, uint16_t device,
                 int by_collector);
/* Strikes a storage out: 1 and *gone filled, or 0 when it is not in the book.
 * By the collector: how that runs just now. */
int ia_book_strike(uintptr_t key, int by_collector, ia_row *gone);
/* The same for one that is young; 0 for any other. */
int ia_book_strike_young(uintptr_t key, int by_collector);

/* Another key for a row that was found; the book has none by it: 0, or -1 when
 * memory is short (nothing changed). */
int ia_book_rename(uintptr_t from, uintptr_t to);

/* Generation and phase change under the GIL: who has it may read them. */
uint16_t ia_ledger_phase(void);
void ia_ledger_set_phase(uint16_t phase);
const ia_ledger_totals *ia_ledger_totals_now(void);
uint32_t ia_ledger_now(int clock);
/* Opens the next tick, at `position`. */
void ia_ledger_tick(uint32_t position);
/* Positions begin to count events of a stronger kind: what is alive was born
 * at position 0 of them, and no lifetime of theirs has ended yet. */
void ia_ledger_forget_positions(void);
/* What counts now of the position that a birth in that generation noted. */
uint32_t ia_ledger_position_then(uint32_t position, uint32_t generation);
/* Sites whose current bucket has turned, until they are cleared. */
const uint32_t *ia_ledger_turned(uint32_t *count);
void ia_ledger_turned_clear(void);
/* Storages born at an earlier position count for nothing. */
uint32_t ia_ledger_warmup(void);
ia_site_totals *ia_ledger_site(uint32_t site); /* NULL when never born */
uint32_t ia_ledger_sites(void);
ia_row *ia_ledger_find(uintptr_t key);
/* It counts by another device. */
void ia_book_move(ia_row *, uint16_t device);
void ia_book_resize(ia_row *, uint64_t bytes);
/* Rows 0 .. count-1, free ones included. */
ia_row *ia_ledger_rows(uint32_t *count);
int ia_ledger_devices(const ia_device_totals **);
size_t ia_ledger_bytes(void);
/* For a sweep: the stacks of what is alive; a site without any is dropped. */
void ia_book_mark_stacks(void);
void ia_book_forget_site(uint32_t site);
/* Do all totals equal the sums over rows?  Slow. */
int ia_ledger_consistent(void);

#endif /* IA_BOOK_H */
