/* Unwinding by the tables that libraries have for C++'s exceptions
 * (.eh_frame, found through .eh_frame_hdr), over a copy of the stack.
 *
 * Of the tables what compilers write for functions is read; an expression, a
 * frame of a signal's or an encoding that is rare ends the list.
 */

#include "../base/memory.h"
#include "loaded.h"
#include "unwind.h"

#include <string.h>

#define SP 7  /* the stack pointer's number */
#define RA 16 /* the return address's */
#define MOST_REMEMBERED 4
/* Bytes of a table's entry; a longer one ends the list. */
#define ENTRY 2048
/* How an address is written: relative to where it stands, 4 bytes, signed; in
 * the index relative to that; a count of 4 bytes. */
#define PCREL_SDATA4 0x1b
#define INDEX_SDATA4 0x3b
#define UDATA4 0x03

/* -- bytes ------------------------------------------------------------------ */

typedef struct {
    const unsigned char *at, *end;
    int bad;
} bytes;

static uint64_t
take(bytes *b, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < size) {
        b->bad = 1;
        b->at = b->end;
        return 0;
    }
    memcpy(&value, b->at, size);
    b->at += size;
    return value;
}

static uint64_t
take_leb(bytes *b, int is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = take(b, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && !b->bad);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return value;
}

static void
skip(bytes *b, uint64_t size)
{
    if (size > (uint64_t)(b->end - b->at))
        b->bad = 1;
    b->at = b->bad ? b->end : b->at + size;
}

/* -- the entry of a function ------------------------------------------------ */

typedef struct {
    uintptr_t begin; /* of the function */
    uint64_t code_step;
    int64_t data_step;
    bytes common, own; /* instructions */
    unsigned char common_bytes[ENTRY], own_bytes[ENTRY];
} entry;

/* An entry without its length, read into `room`; 0 where there is none. */
static int
read_entry(uintptr_t at, unsigned char *room, bytes *b)
{
    uint32_t length;
    if (ia_memory_read(&length, at, sizeof length) != sizeof length ||
        length == 0 || length > ENTRY ||
        ia_memory_read(room, at + sizeof length, length) != length)
        return 0;
    *b = (bytes){room, room + length, 0};
    return 1;
}

/* What several functions have in common: 1, or 0 where it is unusual. */
static int
read_common(entry *e, uintptr_t at)
{
    bytes *b = &e->common;
    char letters[8] = "";
    if (!read_entry(at, e->common_bytes, b) || take(b, 4) != 0)
        return 0;
    uint64_t version = take(b, 1);
    for (size_t i = 0; i < sizeof letters; i++) {
        letters[i] = (char)take(b, 1);
        if (letters[i] == 0)
            break;
    }
    e->code_step = take_leb(b, 0);
    e->data_step = (int64_t)take_leb(b, 1);
    uint64_t back = version == 1 ? take(b, 1) : take_leb(b, 0);
    if (back != RA || letters[0] != 'z' || letters[sizeof letters - 1] != 0)
        return 0;
    uint64_t size = take_leb(b, 0);
    bytes more = *b;
    skip(b, size);
    for (const char *letter = letters + 1; *letter; letter++) {
        uint64_t how = take(&more, 1);
        if (*letter == 'P' && (how & 7) < 5)
            skip(&more, (how & 7) == 2 ? 2 : (how & 7) == 3 ? 4 : 8);
        else if (*letter == 'R' ? how != PCREL_SDATA4 : *letter != 'L')
            return 0;
    }
    return !b->bad && !more.bad;
}

/* The function's own entry at `at`, where it covers the address. */
static int
read_own(entry *e, uintptr_t at, uintptr_t address)
{
    bytes *b = &e->own;
    if (!read_entry(at, e->own_bytes, b))
        return 0;
    uintptr_t here = at + 4;
    uint64_t back = take(b, 4);
    here += 4;
    e->begin = here + (uintptr_t)(int64_t)(int32_t)take(b, 4);
    uint64_t length = take(b, 4);
    skip(b, take_leb(b, 0));
    return !b->bad && address >= e->begin && address - e->begin < length &&
           read_common(e, at + 4 - back);
}

/* By the index, which is ordered by address: the last that is not behind. */
static int
find_entry(entry *e, uintptr_t index, uintptr_t address)
{
    struct {
        unsigned char version, frames, count, table;
        int32_t at;
        uint32_t entries;
    } head;
    int32_t one[2];
    if (ia_memory_read(&head, index, sizeof head) != sizeof head ||
        head.version != 1 || head.frames != PCREL_SDATA4 ||
        head.count != UDATA4 || head.table != INDEX_SDATA4 ||
        head.entries == 0)
        return 0;
    uint32_t low = 0, high = head.entries;
    while (low < high) {
        uint32_t i = low + (high - low) / 2;
        uintptr_t at = index + sizeof head + (uintptr_t)i * sizeof one;
        if (ia_memory_read(one, at, sizeof one) != sizeof one)
            return 0;
        if (index + (uintptr_t)(int64_t)one[0] <= address)
            low = i + 1;
        else
            high = i;
    }
    uintptr_t at = index + sizeof head + (uintptr_t)(low - 1) * sizeof one;
    return low > 0 && ia_memory_read(one, at, sizeof one) == sizeof one &&
           read_own(e, index + (uintptr_t)(int64_t)one[1], address);
}

/* -- where the caller's registers are --------------------------------------- */

typedef enum { SAME, UNKNOWN, SAVED } how;

typedef struct {
    how rule[IA_DUMP_REGISTERS];
    int64_t offset[IA_DUMP_REGISTERS]; /* SAVED: from the frame's address */
    uint64_t base; /* the frame's address is this register's value ... */
    int64_t above; /* ... and so many bytes */
} row;

typedef struct {
    row now, first; /* first: what the common instructions said */
    row remembered[MOST_REMEMBERED];
    uint32_t nremembered;
    uintptr_t at; /* address that `now` holds from */
    int bad;
} rules;

static void
set_rule(rules *s, uint64_t number, how rule, int64_t offset)
{
    if (number >= IA_DUMP_REGISTERS)
        return; /* none that is followed */
    s->now.rule[number] = rule;
    s->now.offset[number] = offset;
}

static void
restore(rules *s, uint64_t number)
{
    if (number < IA_DUMP_REGISTERS)
        set_rule(s, number, s->first.rule[number], s->first.offset[number]);
}

static void
remember(rules *s)
{
    s->bad |= s->nremembered == MOST_REMEMBERED;
    if (!s->bad)
        s->remembered[s->nremembered++] = s->now;
}

static void
recall(rules *s)
{
    s->bad |= s->nremembered == 0;
    if (!s->bad)
        s->now = s->remembered[--s->nremembered];
}

/* Instructions that no address nor a register's number is in. */
static void
run_other(rules *s, const entry *e, bytes *b, uint64_t what)
{
    uint64_t number;
    switch (what) {
    case 0x00: /* nothing */
        break;
    case 0x02: /* the next address, 1, 2 and 4 bytes */
    case 0x03:
    case 0x04:
        s->at += take(b, (size_t)1 << (what - 2)) * e->code_step;
        break;
    case 0x05: /* saved at */
        number = take_leb(b, 0);
        set_rule(s, number, SAVED, (int64_t)take_leb(b, 0) * e->data_step);
        break;
    case 0x11: /* the same, signed */
        number = take_leb(b, 0);
        set_rule(s, number, SAVED, (int64_t)take_leb(b, 1) * e->data_step);
        break;
    case 0x06:
        restore(s, take_leb(b, 0));
        break;
    case 0x07: /* gone */
        set_rule(s, take_leb(b, 0), UNKNOWN, 0);
        break;
    case 0x08:
        set_rule(s, take_leb(b, 0), SAME, 0);
        break;
    case 0x0a:
        remember(s);
        break;
    case 0x0b:
        recall(s);
        break;
    case 0x0c: /* the frame's address: register and offset, either */
        s->now.base = take_leb(b, 0);
        s->now.above = (int64_t)take_leb(b, 0);
        break;
    case 0x0d:
        s->now.base = take_leb(b, 0);
        break;
    case 0x0e:
        s->now.above = (int64_t)take_leb(b, 0);
        break;
    case 0x10: /* an expression tells where */
    case 0x16:
        set_rule(s, take_leb(b, 0), UNKNOWN, 0);
        skip(b, take_leb(b, 0));
        break;
    case 0x2e: /* bytes of arguments */
        take_leb(b, 0);
        break;
    default:
        s->bad = 1;
    }
}

/* As far as the address. */
static void
run(rules *s, const entry *e, bytes b, uintptr_t address)
{
    while (b.at < b.end && !b.bad && !s->bad && s->at <= address) {
        uint64_t what = take(&b, 1), low = what & 0x3f;
        switch (what >> 6) {
        case 1:
            s->at += low * e->code_step;
            break;
        case 2:
            set_rule(s, low, SAVED, (int64_t)take_leb(&b, 0) * e->data_step);
            break;
        case 3:
            restore(s, low);
            break;
        default:
            run_other(s, e, &b, what);
        }
    }
    s->bad |= b.bad;
}

/* -- frames ----------------------------------------------------------------- */

typedef struct {
    const ia_dump *dump;
    uint64_t registers[IA_DUMP_REGISTERS];
    int known[IA_DUMP_REGISTERS];
} frame;

static int
read_stack(const frame *f, uint64_t at, uint64_t *value)
{
    uint64_t begin = f->dump->registers[SP];
    if (at < begin || at - begin > f->dump->bytes - sizeof *value)
        return 0;
    memcpy(value, f->dump->stack + (at - begin), sizeof *value);
    return 1;
}

/* The caller's frame in the place of this one: 1, or 0 where it is not to be
 * told. */
static int
step_out(frame *f, const row *r)
{
    if (r->base >= IA_DUMP_REGISTERS || !f->known[r->base])
        return 0;
    uint64_t top = f->registers[r->base] + (uint64_t)r->above;
    if (top <= f->registers[SP])
        return 0;
    for (int i = 0; i < IA_DUMP_REGISTERS; i++)
        if (r->rule[i] != SAME)
            f->known[i] = r->rule[i] == SAVED &&
                          read_stack(f, top + (uint64_t)r->offset[i],
                                     &f->registers[i]);
    f->registers[SP] = top;
    f->known[SP] = 1;
    return r->rule[RA] == SAVED && f->known[RA];
}

static int
rules_at(uintptr_t index, uintptr_t address, row *found)
{
    entry e;
    rules s = {.nremembered = 0};
    if (!find_entry(&e, index, address))
        return 0;
    s.at = e.begin;
    run(&s, &e, e.common, UINTPTR_MAX);
    s.first = s.now;
    s.at = e.begin;
    run(&s, &e, e.own, address);
    *found = s.now;
    return !s.bad;
}

/* Registers that a callee need not give back are not known. */
static void
begin(frame *f, const ia_dump *dump)
{
    static const unsigned char kept[] = {3, 6, SP, 12, 13, 14, 15, RA};
    *f = (frame){.dump = dump};
    memcpy(f->registers, dump->registers, sizeof f->registers);
    for (size_t i = 0; i < sizeof kept; i++)
        f->known[kept[i]] = 1;
}

uint32_t
ia_unwind(const ia_dump *dump, uintptr_t *calls, uint32_t most)
{
    frame f;
    row r;
    uint32_t count = 0;
    if (dump->bytes < sizeof(uint64_t))
        return 0;
    begin(&f, dump);
    while (count < most) {
        /* A return address may lie behind the end of who called. */
        uintptr_t at = (uintptr_t)f.registers[RA] - (count > 0);
        uintptr_t index = ia_loaded_index(at);
        if (index == 0)
            break;
        calls[count++] = at;
        if (!rules_at(index, at, &r) || !step_out(&f, &r))
            break;
    }
    return count;
}
