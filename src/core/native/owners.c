/* Level by level from a block to who has its address. */

#include "../base/array.h"
#include "../base/memory.h"
#include "../base/ptrmap.h"
#include "blocks.h"
#include "chunks.h"
#include "owners.h"
#include "segments.h"
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From a tensor's memory to a variable it takes four steps with a vector, one
 * more for each object in between, and in a map as many as its tree is high:
 * 16 for 65,536 keys. */
#define MOST_LEVELS 20
/* Steps from where the ways of half of the blocks have met: an object or two
 * around a container.  Further on all that is found is some way or other. */
#define LEVELS_BEHIND 4
/* The same to a Python object: a script's list has its items, its head, the
 * object's attributes, the object, and what Python wraps. */
#define LEVELS_TO_A_BODY 6
/* No ways meet before a tensor's own objects. */
#define FIRST_MEETING 2
/* Pieces that one level leads to; those of a block that everything refers to
 * are more, and tell nothing. */
#define MOST_PIECES 4096
/* Bytes that are read in all, in some three seconds. */
#define MOST_BYTES ((uint64_t)4 << 30)
/* Variables that are noted, with a name or without. */
#define MOST_HITS 64
/* Who has an object has its beginning, or that of a base class: an address
 * further on in a large piece is more often what was there before. */
#define NEAR 64
/* Pieces from here on are looked up among blocks of numbers. */
#define LARGE ((size_t)1024)

#define WINDOW (1 << 17)
#define WINDOW_WORDS (WINDOW / sizeof(uintptr_t))

typedef struct {
    uintptr_t begin, end;
    uint8_t blocks; /* a bit for each that it leads to */
} piece;

typedef struct {
    piece items[MOST_PIECES]; /* in order, but for those that are added */
    uint32_t count;
} level;

typedef struct {
    uintptr_t address;
    uint32_t name; /* place among names, or NO_NAME */
    uint8_t blocks;
} hit;

#define NO_NAME UINT32_MAX

/* Tables that hold addresses stand in memory of our own library's, which is
 * not searched: they would be found. */
static struct {
    level before, now, next;
    hit hits[MOST_HITS];
    ia_owner names[MOST_HITS];
    uint32_t nhits, nnames;
    uintptr_t window[WINDOW_WORDS];
} t;

typedef struct {
    ia_segments segments;
    ia_extents extents;
    ia_ptrmap met; /* head of a piece -> its bits */
    const ia_unowned *asked; /* borrowed */
    uint8_t *of_body; /* owned: bits of the blocks that each body leads to */
    uint64_t bytes_read;
    size_t freed; /* second word of what was freed, or 0 */
    int failed;
} search;

/* -- which piece of this level an address lies in ------------------------- */

static int
by_begin(const void *a, const void *b)
{
    uintptr_t x = ((const piece *)a)->begin, y = ((const piece *)b)->begin;
    return (x > y) - (x < y);
}

static const piece *
piece_at(const level *l, uintptr_t word)
{
    if (l->count == 0 || word < l->items[0].begin ||
        word >= l->items[l->count - 1].end)
        return NULL;
    uint32_t low = 0, high = l->count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (l->items[middle].begin <= word)
            low = middle;
        else
            high = middle;
    }
    const piece *p = &l->items[low];
    return word < p->end && word - p->begin < NEAR ? p : NULL;
}

/* What stands between two addresses of a piece leads to blocks itself. */
static uint8_t
between(uintptr_t begin, uintptr_t end)
{
    uintptr_t words[256];
    uint8_t found = 0;
    for (size_t n; begin < end; begin += n) {
        n = end - begin < sizeof words ? end - begin : sizeof words;
        n = ia_memory_read(words, begin, n) & ~(sizeof *words - 1);
        for (size_t i = 0; i < n / sizeof *words; i++) {
            const piece *p = piece_at(&t.before, words[i]);
            found |= p ? p->blocks : 0;
        }
        if (n == 0)
            break;
    }
    return found;
}

/* Three words may be those of a vector: its begin, its end and that of its
 * room.  Behind its end stands what was let go of. */
static int
is_vector(const uintptr_t v[3])
{
    const piece *p = piece_at(&t.now, v[0]);
    return p != NULL && v[0] == p->begin && v[0] <= v[1] && v[1] <= v[2] &&
           v[0] < v[2] && v[2] <= p->end;
}

/* Bits of the blocks that the first of these words leads to, and how many
 * words belong together. */
static uint8_t
lead_to(const uintptr_t *words, size_t count, size_t *taken)
{
    const piece *p = piece_at(&t.now, words[0]);
    *taken = 1;
    if (p == NULL)
        return 0;
    if (count < 3 || t.before.count == 0 || !is_vector(words))
        return p->blocks;
    *taken = 3;
    return between(words[0], words[1]);
}

/* What a piece has of this level: the blocks, and the first word of those that
 * lead there. */
typedef struct {
    size_t first;
    uint8_t blocks;
} content;

/* `at`: the place of these words in their piece. */
static void
add_content(content *c, const uintptr_t *words, size_t count, size_t at)
{
    for (size_t i = 0, taken; i < count; i += taken) {
        uint8_t found = lead_to(&words[i], count - i, &taken);
        if (found && c->blocks == 0)
            c->first = at + i;
        c->blocks |= found;
    }
}

/* -- pieces -------------------------------------------------------------- */

/* The last word of a piece stands where the next one's head begins. */
#define BEHIND sizeof(uintptr_t)

/* What was met of a piece: a bit for each block, and the first word. */
#define FIRST_OF(known) ((known) >> 8)
#define MOST_FIRST ((size_t)UINT32_MAX >> 8)

/* A piece has an address of this level's: it is one of the next.  One that was
 * met by what stands behind a vector's end is met again by what stands in it,
 * further in front.  What is noted is no address itself. */
static void
add_piece(search *s, uintptr_t head, size_t size, const content *c)
{
    uint32_t known = ia_ptrmap_get(&s->met, ~head);
    uint8_t met = known == IA_PTRMAP_NONE ? 0 : (uint8_t)known;
    uint32_t first = (uint32_t)(c->first < MOST_FIRST ? c->first : MOST_FIRST);
    int is_news = (c->blocks & ~met) != 0 || first < FIRST_OF(known);
    if (!is_news || t.next.count == MOST_PIECES)
        return;
    if (known != IA_PTRMAP_NONE && FIRST_OF(known) < first)
        first = FIRST_OF(known);
    if (ia_ptrmap_set(&s->met, ~head, first << 8 | met | c->blocks) < 0)
        s->failed = 1;
    t.next.items[t.next.count++] =
        (piece){head + IA_CHUNK_HEAD, head + size + BEHIND, c->blocks};
}

static size_t
fill_window(search *s, uintptr_t at, uintptr_t end)
{
    size_t wanted = end - at < WINDOW ? end - at : WINDOW;
    size_t got = ia_memory_read(t.window, at, wanted);
    s->bytes_read += got;
    return got / sizeof(uintptr_t);
}

/* Words of a piece that the window has no room for. */
static void
look_into(search *s, uintptr_t begin, uintptr_t end, content *c)
{
    uintptr_t at = begin;
    for (size_t n; at < end && s->bytes_read <= MOST_BYTES;
         at += n * sizeof(uintptr_t)) {
        n = fill_window(s, at, end);
        add_content(c, t.window, n, (at - begin) / sizeof(uintptr_t));
        if (n == 0)
            break;
    }
}

/* A piece that leads on where it is in use, which the head behind it says. */
typedef struct {
    uintptr_t head;
    size_t size;
    content has;
} waiting;

static void
settle(search *s, waiting *w, const size_t next[2])
{
    if (w->has.blocks && ia_chunk_before_in_use(next))
        add_piece(s, w->head, w->size, &w->has);
    *w = (waiting){0};
}

static int
is_numbers(const search *s, uintptr_t begin, uintptr_t end)
{
    return ia_blocks_meet(s->asked->numbers, s->asked->nnumbers, begin, end);
}

/* One piece whose head is in the window at `i`; words that it takes there, 0
 * where it has to be read from its beginning. */
static size_t
look_at_piece(search *s, waiting *w, size_t i, size_t n)
{
    size_t words = w->size / sizeof(uintptr_t);
    uintptr_t end = w->head + w->size;
    if ((s->freed && i + 3 < n && t.window[i + 3] == s->freed) ||
        (w->size >= LARGE && is_numbers(s, w->head, end)))
        return words;
    if (i + words < n) {
        add_content(&w->has, &t.window[i + 2], words - 1, 0);
        return words;
    }
    if (i > 0)
        return 0;
    look_into(s, w->head + IA_CHUNK_HEAD, end + BEHIND, &w->has);
    return n; /* the window has been used for it */
}

/* A stretch of many pieces. */
static void
look_through(search *s, const ia_extent *e)
{
    uintptr_t at = e->begin;
    waiting w = {0};
    size_t behind[2];
    while (at < e->end && !s->failed) {
        size_t n = fill_window(s, at, e->end), i = 0;
        if (n < 2)
            return;
        while (i + 2 <= n) {
            size_t size = ia_chunk_size(&t.window[i], e->end - at);
            if (size == 0)
                return; /* it changes just now */
            settle(s, &w, &t.window[i]);
            w = (waiting){.head = at, .size = size};
            size_t words = look_at_piece(s, &w, i, n);
            if (words == 0)
                break; /* whole in the next window */
            at += size;
            i += words;
        }
    }
    if (w.has.blocks && ia_memory_read(behind, at, sizeof behind))
        settle(s, &w, behind);
}

static void
look_at_extents(search *s)
{
    for (uint32_t i = 0; i < s->extents.count && !s->failed; i++) {
        const ia_extent *e = &s->extents.items[i];
        if (s->bytes_read > MOST_BYTES)
            return;
        if (!e->single)
            look_through(s, e);
        else if (!is_numbers(s, e->begin, e->end)) {
            content c = {0};
            look_into(s, e->begin + IA_CHUNK_HEAD, e->end, &c);
            if (c.blocks)
                add_piece(s, e->begin, e->end - e->begin, &c);
        }
    }
}

/* -- variables ----------------------------------------------------------- */

/* Lists every C++ object that a Python object wraps, and owns none: what is
 * found there has its holder in Python. */
#define REGISTRY "pybind11::"

/* Several words of one variable have one name: a map's first and last. */
static uint32_t
name_of(const ia_segment *segment, uintptr_t address)
{
    ia_owner *one = &t.names[t.nnames];
    if (!ia_symbol_name(segment, address, one->symbol, sizeof one->symbol) ||
        strncmp(one->symbol, REGISTRY, strlen(REGISTRY)) == 0)
        return NO_NAME;
    snprintf(one->library, sizeof one->library, "%s", segment->path);
    for (uint32_t i = 0; i < t.nnames; i++)
        if (strcmp(t.names[i].symbol, one->symbol) == 0 &&
            strcmp(t.names[i].library, one->library) == 0)
            return i;
    return t.nnames++;
}

static void
add_hit(const ia_segment *segment, uintptr_t address, uint8_t blocks)
{
    for (uint32_t i = 0; i < t.nhits; i++)
        if (t.hits[i].address == address) {
            t.hits[i].blocks |= blocks;
            return;
        }
    if (t.nhits < MOST_HITS) {
        uint32_t name = name_of(segment, address);
        t.hits[t.nhits++] = (hit){address, name, blocks};
    }
}

/* Which word it is tells the variable. */
static void
look_at_words(const ia_segment *one, uintptr_t at, size_t count)
{
    for (size_t i = 0, taken; i < count; i += taken) {
        uint8_t found = lead_to(&t.window[i], count - i, &taken);
        if (found)
            add_hit(one, at + i * sizeof(uintptr_t), found);
    }
}

/* What our own variables lead to is the ledger's: it knows every block. */
static void
drop_own(uintptr_t at, size_t count)
{
    uintptr_t tables = (uintptr_t)&t;
    for (size_t i = 0; i < count; i++, at += sizeof(uintptr_t)) {
        uintptr_t word = t.window[i];
        piece *p = (piece *)piece_at(&t.now, word);
        if (p != NULL && p->begin == word && at - tables >= sizeof t)
            p->blocks = 0;
    }
}

static void
look_at_segments(search *s, int own)
{
    for (uint32_t i = 0; i < s->segments.count; i++) {
        const ia_segment *one = &s->segments.items[i];
        if (one->is_own != own)
            continue;
        uintptr_t at = one->begin + (-one->begin % sizeof(uintptr_t));
        for (size_t n; at < one->end; at += n * sizeof(uintptr_t)) {
            n = fill_window(s, at, one->end);
            if (own)
                drop_own(at, n);
            else
                look_at_words(one, at, n);
            if (n == 0)
                break;
        }
    }
}

static uint32_t
many(uint8_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}

/* Has it been found, and has no name?  What leads there does not matter. */
static int
is_nameless(uint32_t asked)
{
    for (uint32_t i = 0; i < t.nhits; i++)
        if (t.hits[i].name == NO_NAME &&
            2 * many(t.hits[i].blocks) >= asked)
            return 1;
    return 0;
}

/* The variables that most blocks lead to, where these are half of them: what
 * was let go of may still stand in a piece that has been used again. */
static int
tell(uint32_t asked, ia_owner *out)
{
    uint32_t most = (asked + 1) / 2;
    int told = 0;
    for (uint32_t i = 0; i < t.nhits; i++)
        if (t.hits[i].name == NO_NAME && many(t.hits[i].blocks) >= most)
            most = many(t.hits[i].blocks) + 1;
    for (uint32_t n = 0; n < t.nnames; n++) {
        uint8_t blocks = 0;
        for (uint32_t i = 0; i < t.nhits; i++)
            if (t.hits[i].name == n)
                blocks |= t.hits[i].blocks;
        if (many(blocks) < most || (many(blocks) == most &&
                                    told == IA_MOST_OWNERS))
            continue;
        if (many(blocks) > most)
            told = 0;
        most = many(blocks);
        out[told] = t.names[n];
        out[told].body = IA_NO_BODY;
        out[told++].blocks = most;
    }
    return told;
}

/* -- Python objects ------------------------------------------------------ */

/* Words of an object that are looked at. */
#define BODY_WORDS 16

static uint8_t
held_by(const ia_block *body)
{
    uintptr_t words[BODY_WORDS];
    size_t size = body->size < sizeof words ? body->size : sizeof words;
    uint8_t found = 0;
    memcpy(words, (const void *)body->begin, size);
    for (size_t i = 0; i < size / sizeof *words; i++) {
        const piece *p = piece_at(&t.now, words[i]);
        found |= p ? p->blocks : 0;
    }
    return found;
}

/* The object that leads to most of the blocks, which are half of them. */
static int
tell_body(search *s, ia_owner *out)
{
    uint32_t most = (s->asked->count + 1) / 2;
    int found = 0;
    for (size_t i = 0; i < s->asked->nbodies; i++) {
        s->of_body[i] |= held_by(&s->asked->bodies[i]);
        if (many(s->of_body[i]) < most + (uint32_t)found)
            continue;
        most = many(s->of_body[i]);
        *out = (ia_owner){.body = i, .blocks = most};
        found = 1;
    }
    return found;
}

/* -- the search ---------------------------------------------------------- */

static void
begin(const ia_block *blocks, uint32_t count)
{
    t.nhits = t.nnames = t.before.count = t.next.count = 0;
    t.now.count = count;
    for (uint32_t i = 0; i < count; i++)
        t.now.items[i] = (piece){blocks[i].begin,
                                 blocks[i].begin + blocks[i].size,
                                 (uint8_t)(1u << i)};
}

/* Does one piece lead to half of the blocks? */
static int
have_met(uint32_t asked)
{
    for (uint32_t i = 0; i < t.now.count; i++)
        if (2 * many(t.now.items[i].blocks) >= asked)
            return 1;
    return 0;
}

static void
copy(level *to, const level *from)
{
    memcpy(to->items, from->items, from->count * sizeof *from->items);
    to->count = from->count;
}

static void
go_on(void)
{
    copy(&t.before, &t.now);
    copy(&t.now, &t.next);
    t.next.count = 0;
}

/* How far the search has come. */
typedef struct {
    int step;
    int meeting; /* the step at which the ways met, or -1 */
    int found; /* variables */
} progress;

static int
is_far(const progress *p, int levels)
{
    return p->step == MOST_LEVELS ||
           (p->meeting >= 0 && p->step >= p->meeting + levels);
}

/* One level; 1 where the search is over. */
static int
look_for_owners(search *s, progress *p, ia_owner *out)
{
    uint32_t count = s->asked->count;
    ia_owner body;
    qsort(t.now.items, t.now.count, sizeof *t.now.items, by_begin);
    if (p->step > 0)
        look_at_segments(s, 1);
    if (p->found == 0 && !is_far(p, LEVELS_BEHIND)) {
        look_at_segments(s, 0);
        p->found = tell(count, out);
        if (is_nameless(count))
            return 1;
    }
    if (tell_body(s, &body)) {
        p->found = p->found == 0;
        out[0] = body;
        return 1;
    }
    int is_direct = p->meeting < 0 || p->step == p->meeting;
    return (p->found && is_direct) || s->bytes_read > MOST_BYTES;
}

static int
begin_search(search *s)
{
    begin(s->asked->blocks, s->asked->count);
    s->of_body = calloc(s->asked->nbodies + 1, sizeof *s->of_body);
    /* Tables that grew would change what is being looked through. */
    return ia_chunks_freed(&s->freed) < 0 || s->of_body == NULL ||
                   ia_ptrmap_init(&s->met, (size_t)MOST_PIECES * 2) < 0 ||
                   ia_segments_find(&s->segments) < 0 ||
                   ia_extents_find(&s->extents) < 0
               ? -1
               : 0;
}

/* The kernel may refuse to read, as it does in some containers. */
static int
is_partial(const search *s)
{
    uintptr_t word;
    return s->extents.partial || s->bytes_read > MOST_BYTES ||
           ia_memory_read(&word, (uintptr_t)&t.window, sizeof word) == 0;
}

int
ia_owners_find(const ia_unowned *asked, ia_owner out[IA_MOST_OWNERS])
{
    search s = {.asked = asked};
    progress p = {.meeting = -1};
    if (asked->count == 0 || asked->count > IA_MOST_BLOCKS)
        return 0;
    s.failed = begin_search(&s) < 0;
    for (; t.now.count > 0 && !s.failed; p.step++) {
        if (p.meeting < 0 && p.step >= FIRST_MEETING && have_met(asked->count))
            p.meeting = p.step;
        if (is_far(&p, LEVELS_TO_A_BODY) || look_for_owners(&s, &p, out))
            break;
        look_at_extents(&s);
        go_on();
    }
    int partial = is_partial(&s);
    ia_segments_free(&s.segments);
    ia_extents_free(&s.extents);
    ia_ptrmap_free(&s.met);
    free(s.of_body);
    if (s.failed)
        return -1;
    return p.found == 0 && partial ? IA_UNREAD : p.found;
}
