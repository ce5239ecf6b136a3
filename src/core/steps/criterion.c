/* Which lines keep what they make. */

#include "criterion.h"

#include "../base/array.h"
#include "../base/ptrmap.h"
#include "../ledger/sites.h"

#include <stdlib.h>
#include <string.h>

/* Windows that a stretch is divided into to see whether its minima rise, and
 * how many of the last must: the first ones hold what was built up at the
 * stretch's beginning. */
#define WINDOWS 8
#define RISING 6
/* The longest part of a stretch that may pass without a survivor. */
#define MOST_EMPTY(length) ((length) / 3)

typedef struct {
    uint32_t site;
    ia_survivors by[IA_CLOCKS]; /* of these, the least amounts: nodes */
    ia_survivors late;          /* the same, by the ticks of a silence */
    uint64_t nodes;
    int grows; /* it did at its last check */
} site_graph;

static struct {
    uint32_t window;
    uint32_t warmup;
    uint32_t silent_from; /* tick */
    site_graph *graphs; /* owned */
    uint32_t ngraphs, capacity;
    ia_ptrmap of_site; /* site + 1 -> index in graphs */
} state;

void
ia_criterion_reset(uint32_t warmup, uint32_t window)
{
    state.warmup = warmup;
    state.window = window;
    state.ngraphs = 0;
    ia_ptrmap_free(&state.of_site);
}

void
ia_criterion_forget_positions(void)
{
    for (uint32_t i = 0; i < state.ngraphs; i++) {
        ia_survivors_reset(&state.graphs[i].by[IA_BY_POSITION], state.warmup);
        state.graphs[i].grows = 0;
    }
}

void
ia_criterion_begin_silence(void)
{
    state.silent_from = ia_ledger_now(IA_BY_TICK);
    for (uint32_t i = 0; i < state.ngraphs; i++)
        ia_survivors_reset(&state.graphs[i].late, 0);
}

static uint32_t
silence(void)
{
    return ia_ledger_now(IA_BY_TICK) - state.silent_from;
}

static site_graph *
graph_of(uint32_t site)
{
    uint32_t i = ia_ptrmap_get(&state.of_site, (uintptr_t)site + 1);
    return i == IA_PTRMAP_NONE ? NULL : &state.graphs[i];
}

static site_graph *
add_graph(uint32_t site)
{
    if (IA_ROOM(state.graphs, state.capacity, state.ngraphs + 1) < 0)
        return NULL;
    if (ia_ptrmap_set(&state.of_site, (uintptr_t)site + 1, state.ngraphs) < 0)
        return NULL;
    site_graph *g = &state.graphs[state.ngraphs++];
    *g = (site_graph){.site = site};
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_reset(&g->by[c], state.warmup);
    ia_survivors_reset(&g->late, 0);
    return g;
}

void
ia_criterion_note_graph(uint32_t site, uint64_t nodes)
{
    site_graph *g = graph_of(site);
    if (g == NULL)
        g = add_graph(site);
    if (g == NULL)
        return;
    g->nodes = nodes;
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_advance(&g->by[c], ia_ledger_now(c), 0, nodes);
    ia_survivors_advance(&g->late, silence(), 0, nodes);
}

uint64_t
ia_criterion_graph(uint32_t site)
{
    site_graph *g = graph_of(site);
    return g == NULL ? 0 : g->nodes;
}

/* -- one site ------------------------------------------------------------- */

/* Does the least amount of the stretch's last windows rise strictly? */
static int
minima_rise(const ia_survivors *s, uint32_t from, int amounts)
{
    uint32_t length = s->current - from + 1;
    double before = 0;
    if (length < WINDOWS)
        return 0;
    for (uint32_t w = WINDOWS - RISING; w < WINDOWS; w++) {
        uint32_t begin = from + w * length / WINDOWS;
        uint32_t end = from + (w + 1) * length / WINDOWS;
        double least = -1;
        for (uint32_t i = begin; i < end; i++) {
            double value = amounts ? (double)s->low_bytes[i] : s->low[i];
            if (least < 0 || value < least)
                least = value;
        }
        if (w > WINDOWS - RISING && least <= before)
            return 0;
        before = least;
    }
    return 1;
}

/* Was there never less of it since then?  What falls below where it began has
 * grown from there on at most. */
static int
begins_least(const ia_survivors *s, uint32_t from)
{
    for (uint32_t i = from + 1; i <= s->current; i++)
        if (s->low_bytes[i] < s->low_bytes[from])
            return 0;
    return 1;
}

/* What is let go without keeping up with what comes leaves the least amount
 * rising, and as fast later on as before: what leaves in the end as fast as it
 * comes, such as sessions of any length, slows down from the first on. */
#define AS_FAST(later, before) (4 * (later) >= 3 * (before))

static int
rises_steadily(const ia_survivors *s, uint32_t from)
{
    if (!minima_rise(s, from, 0))
        return 0;
    /* What the first bucket built up, at whatever pace, is not counted. */
    uint32_t begin = from + 1, middle = begin + (s->current - begin) / 2;
    int64_t before = (int64_t)s->low[middle] - s->low[begin];
    int64_t later = (int64_t)s->low[s->current] - s->low[middle];
    return AS_FAST(later, before);
}

/* Were storages that survive born all along the stretch, and as many in its
 * younger half as in half of its older one?  That the bucket which is being
 * filled has none yet says nothing. */
static int
is_even(const ia_survivors *s, uint32_t from, uint32_t window)
{
    uint32_t end = s->current - (s->current > from && !s->born[s->current]);
    uint32_t length = end - from + 1, occupied = 0, empty = 0;
    uint64_t half[2] = {0, 0};
    for (uint32_t i = from; i <= end; i++) {
        half[i - from >= length - length / 2] += s->born[i];
        occupied += s->born[i] > 0;
        empty = s->born[i] > 0 ? 0 : empty + 1;
        if (empty > MOST_EMPTY(length))
            return 0;
    }
    /* Of a window that is wider than usual a stretch has the age, and as many
     * buckets as others. */
    uint32_t least = window < IA_USUAL_WINDOW ? window : IA_USUAL_WINDOW;
    return occupied >= least && 2 * half[1] >= half[0];
}

/* The oldest bucket since which the site grows, or IA_BUCKETS. */
static uint32_t
grows_since(const ia_survivors *s, uint32_t now, uint32_t age, uint32_t window,
            int amounts)
{
    for (uint32_t i = 0; s->begun && i <= s->current; i++) {
        uint32_t old = now - ia_survivors_begin(s, i);
        if (ia_survivors_begin(s, i) > now || old < age)
            break;
        if (amounts ? begins_least(s, i) && minima_rise(s, i, 1)
                    : s->born[i] > 0 && is_even(s, i, window) &&
                          (old > 2 * s->life || minima_rise(s, i, 0)))
            return i;
    }
    return IA_BUCKETS;
}

static void
note(ia_suspect *out, uint32_t kind, const ia_survivors *s, uint32_t bucket)
{
    uint32_t since = ia_survivors_begin(s, bucket);
    if (out->kinds == 0 || since < out->since)
        out->since = since;
    out->kinds |= kind;
}

void
ia_criterion_ask(const ia_survivors *s, uint32_t now, uint32_t age,
                 uint32_t window, ia_suspect *out)
{
    uint32_t since = grows_since(s, now, age, window, 0);
    if (since < IA_BUCKETS) {
        note(out, IA_GROWS_COUNT, s, since);
        if (rises_steadily(s, since))
            out->kinds |= IA_GROWS_STEADILY;
        for (uint32_t i = since; i <= s->current; i++)
            out->survivors += s->born[i];
        return;
    }
    since = grows_since(s, now, age, window, 1);
    if (since == IA_BUCKETS)
        return;
    note(out, IA_GROWS_BYTES, s, since);
    if (minima_rise(s, since, 0))
        out->kinds |= IA_GROWS_ANEW;
}

/* Fills *out; 0 where the site does not grow. */
static int
judge(uint32_t site, ia_clock clock, uint32_t age, ia_suspect *out)
{
    ia_site_totals *totals = ia_ledger_site(site);
    site_graph *g = graph_of(site);
    uint32_t now = ia_ledger_now((int)clock), since;
    if (totals->live_count == totals->allowed_count)
        return 0;
    ia_survivors *s = &totals->by[clock];
    *out = (ia_suspect){
        .number = ia_site_number(site),
        .site = site,
        .life = s->life,
        .live_count = totals->live_count,
        .live_bytes = totals->live_bytes,
        .cycle_bytes = totals->cycle_bytes,
        .graph_nodes = g != NULL ? g->nodes : 0,
        .phase = totals->phase,
        .device = totals->device,
    };
    ia_survivors_advance(s, now, totals->live_count - totals->allowed_count,
                         totals->live_bytes - totals->allowed_bytes);
    ia_criterion_ask(s, now, age, state.window, out);
    if (g != NULL) {
        since = grows_since(&g->by[clock], now, age, state.window, 1);
        if (since < IA_BUCKETS)
            note(out, IA_GROWS_GRAPH, &g->by[clock], since);
    }
    return out->kinds != 0;
}

/* -- all of them ----------------------------------------------------------- */

/* Somebody who asks for few positions is told after few, and who asks for many
 * after as many. */
static uint32_t
age_to_tell(void)
{
    return state.window + IA_AGE_TO_TELL -
           (state.window < IA_USUAL_WINDOW ? IA_AGE_FOR_REPORT
                                           : IA_USUAL_WINDOW);
}

static int
graph_grows(const site_graph *g, const ia_survivors *s, uint32_t now)
{
    return ia_ledger_site(g->site) != NULL &&
           grows_since(s, now, age_to_tell(), state.window, 1) < IA_BUCKETS;
}

uint32_t
ia_criterion_check(ia_clock clock, uint32_t *fresh)
{
    uint32_t count, found = 0;
    const uint32_t *turned = ia_ledger_turned(&count);
    ia_suspect unused;
    *fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        ia_site_totals *totals = ia_ledger_site(turned[i]);
        if (totals == NULL || !totals->by[clock].turned)
            continue;
        int grows = judge(turned[i], clock, age_to_tell(), &unused);
        found += (uint32_t)grows;
        *fresh += grows && !totals->grows;
        totals->grows = (uint8_t)grows;
    }
    ia_ledger_turned_clear();
    for (uint32_t i = 0; i < state.ngraphs; i++) {
        site_graph *g = &state.graphs[i];
        if (!g->by[clock].turned)
            continue;
        int grows =
            graph_grows(g, &g->by[clock], ia_ledger_now((int)clock));
        found += (uint32_t)grows;
        *fresh += grows && !g->grows;
        g->grows = grows;
        g->by[clock].turned = 0;
    }
    return found;
}

int
ia_criterion_grows_in_silence(void)
{
    for (uint32_t i = 0; i < state.ngraphs; i++)
        if (graph_grows(&state.graphs[i], &state.graphs[i].late, silence()))
            return 1;
    return 0;
}

uint32_t
ia_criterion_suspects(ia_clock clock, uint32_t age, ia_suspect *out,
                      uint32_t room)
{
    uint32_t found = 0, n = ia_ledger_sites();
    ia_suspect one;
    for (uint32_t i = 0; i < n; i++) {
        if (!judge(i, clock, age, &one))
            continue;
        if (found < room)
            out[found] = one;
        found++;
    }
    return found;
}

/* -- what has risen --------------------------------------------------------- */

/* A site's survivors without the bucket that is current: a program that ends
 * lets go of what it has in the middle of it.  0 where none is over. */
static int
buckets_over(uint32_t site, ia_clock clock, ia_survivors *s)
{
    const ia_site_totals *totals = ia_ledger_site(site);
    if (totals == NULL || !totals->by[clock].begun)
        return 0;
    *s = totals->by[clock];
    ia_survivors_advance(s, ia_ledger_now((int)clock),
                         totals->live_count - totals->allowed_count,
                         totals->live_bytes - totals->allowed_bytes);
    if (s->current == 0)
        return 0;
    s->current--;
    return 1;
}

static double
rise_of(const ia_survivors *s)
{
    double rise = s->low_bytes[s->current] - s->low_bytes[s->current / 4];
    return rise > 0 ? rise : 0;
}

uint32_t
ia_criterion_rises(ia_clock clock, ia_rise *out, uint32_t room)
{
    uint32_t found = 0, n = ia_ledger_sites();
    double all = 0;
    ia_survivors s;
    for (uint32_t i = 0; i < n; i++)
        if (buckets_over(i, clock, &s))
            all += rise_of(&s);
    for (uint32_t i = 0; i < n && found < room; i++) {
        if (!buckets_over(i, clock, &s))
            continue;
        double rise = rise_of(&s);
        if (rise > 0 && rise * room >= all)
            out[found++] = (ia_rise){
                .number = ia_site_number(i),
                .by = s,
                .device = ia_ledger_site(i)->device,
            };
    }
    return found;
}

void
ia_criterion_forget_site(uint32_t site)
{
    site_graph *g = graph_of(site);
    if (g == NULL)
        return;
    for (int c = 0; c < IA_CLOCKS; c++)
        ia_survivors_reset(&g->by[c], state.warmup);
    ia_survivors_reset(&g->late, 0);
    g->nodes = 0;
    g->grows = 0;
}

size_t
ia_criterion_bytes(void)
{
    return state.capacity * sizeof *state.graphs +
           ia_ptrmap_bytes(&state.of_site);
}
