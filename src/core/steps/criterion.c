/* Trends of every site's survivors, and when they make a suspect. */

#include "../ledger/ledger.h"
#include "../ledger/sites.h"
#include "criterion.h"

#include <stdlib.h>
#include <string.h>

/* A trend counts as growing while the time since its last high is at most
 * this many of its usual gaps: a leak at every tenth step is one, a cache
 * that has filled is not. */
#define GAPS_UNTIL_PLATEAU 2.5
/* Boundaries that pass in any case before a plateau is believed. */
#define MIN_PLATEAU 3
/* Growth in bytes alone must be this regular: batches of varying size also
 * set a record now and then. */
#define BYTES_REGULARITY 0.6
#define BYTES_MIN_HIGHS 8
/* A graph is probed ever more rarely: probes count, not steps. */
#define GRAPH_MIN_HIGHS 3
#define GRAPH_MAX_MISSES 1
/* A site that was a suspect this few steps ago is no new one: what is alive
 * at every other boundary comes and goes. */
#define FRESH_AFTER 10

typedef struct {
    ia_trend count;
    ia_trend bytes;
    ia_trend graph;
    uint32_t count_peak;
    uint32_t high_water; /* generations, since the last reset */
    uint32_t resets;
    uint32_t last_reset;
    uint32_t last_suspect; /* step + 1; 0: never */
} site_trends;

static struct {
    site_trends *sites;
    uint32_t nsites;
    uint32_t warmup;
    uint32_t window;
} state;

void
ia_criterion_reset(uint32_t warmup, uint32_t window)
{
    if (state.sites != NULL)
        memset(state.sites, 0, state.nsites * sizeof *state.sites);
    state.warmup = warmup;
    state.window = window;
}

static int
reserve(uint32_t wanted)
{
    if (wanted <= state.nsites)
        return 0;
    uint32_t bigger = state.nsites ? state.nsites : 128;
    while (bigger < wanted)
        bigger *= 2;
    site_trends *moved = realloc(state.sites, bigger * sizeof *moved);
    if (moved == NULL)
        return -1;
    memset(moved + state.nsites, 0,
           (bigger - state.nsites) * sizeof *moved);
    state.sites = moved;
    state.nsites = bigger;
    return 0;
}

static void
note(ia_trend *trend, uint64_t value, uint32_t step, const ia_site_totals *s)
{
    trend->misses++;
    if (value <= trend->peak)
        return;
    trend->misses = 0;
    trend->peak = value;
    trend->highs[trend->nhighs++ % IA_TREND_HIGHS] =
        (ia_high){step, s->live_count, s->live_bytes, value};
}

static const ia_high *
newest(const ia_trend *t)
{
    return &t->highs[(t->nhighs - 1) % IA_TREND_HIGHS];
}

static const ia_high *
oldest(const ia_trend *t)
{
    uint32_t kept = t->nhighs < IA_TREND_HIGHS ? t->nhighs : IA_TREND_HIGHS;
    return &t->highs[(t->nhighs - kept) % IA_TREND_HIGHS];
}

static double
mean_gap(const ia_trend *t)
{
    uint32_t kept = t->nhighs < IA_TREND_HIGHS ? t->nhighs : IA_TREND_HIGHS;
    if (kept < 2)
        return 0;
    return (double)(newest(t)->step - oldest(t)->step) / (kept - 1);
}

static int
still_growing(const ia_trend *t, uint32_t step, uint32_t min_highs)
{
    if (t->nhighs < min_highs || t->nhighs < 2)
        return 0;
    double patience = GAPS_UNTIL_PLATEAU * mean_gap(t);
    if (patience < MIN_PLATEAU)
        patience = MIN_PLATEAU;
    return (double)(step - newest(t)->step) <= patience;
}

/* What the highs alone say. */
static uint32_t
trends_of(const site_trends *t, uint32_t step)
{
    uint32_t kinds = 0;
    if (still_growing(&t->count, step, state.window - 1))
        kinds |= IA_GROWS_COUNT;
    if (still_growing(&t->bytes, step, BYTES_MIN_HIGHS) &&
        mean_gap(&t->bytes) <= 1 / BYTES_REGULARITY)
        kinds |= IA_GROWS_BYTES;
    if (t->graph.nhighs >= GRAPH_MIN_HIGHS &&
        t->graph.misses <= GRAPH_MAX_MISSES)
        kinds |= IA_GROWS_GRAPH;
    return kinds;
}

static uint32_t
kinds_of(const site_trends *t, const ia_site_totals *s, uint32_t step)
{
    uint32_t kinds = s->live_count ? trends_of(t, step) : 0;
    if (s->generations < state.window)
        kinds &= ~(uint32_t)IA_GROWS_COUNT;
    if (kinds & IA_GROWS_COUNT)
        kinds &= ~(uint32_t)IA_GROWS_BYTES; /* more of them, not larger ones */
    return kinds;
}

static uint32_t
last_high(const ia_trend *t)
{
    return t->nhighs ? newest(t)->step : 0;
}

ia_past
ia_criterion_past(uint32_t site, uint32_t step)
{
    if (site >= state.nsites)
        return (ia_past){0};
    const site_trends *t = &state.sites[site];
    ia_past past = {
        .growing = trends_of(t, step) != 0,
        .peak = (uint32_t)t->count.peak,
        .resets = t->resets,
        .last_reset = t->last_reset,
    };
    const ia_trend *trends[] = {&t->count, &t->bytes, &t->graph};
    for (int i = 0; i < 3; i++)
        if (last_high(trends[i]) > past.last_high)
            past.last_high = last_high(trends[i]);
    return past;
}

/* Most of what had gathered is gone: an epoch's metric was cleared. */
static void
note_reset(site_trends *t, uint32_t generations, uint32_t step)
{
    if (generations > t->high_water)
        t->high_water = generations;
    if (t->high_water < state.window || generations * 2 > t->high_water)
        return;
    t->resets++;
    t->last_reset = step;
    t->high_water = generations;
}

uint32_t
ia_criterion_note(uint32_t step)
{
    uint32_t fresh = 0, n = ia_ledger_sites();
    if (reserve(n) < 0)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        ia_site_totals *s = ia_ledger_site(i);
        site_trends *t = &state.sites[i];
        if (step >= state.warmup)
            note_reset(t, s->generations, step);
        if (s->live_count == 0 || step < state.warmup)
            continue;
        note(&t->count, s->generations, step, s);
        if (s->live_count <= t->count_peak)
            note(&t->bytes, s->live_bytes, step, s);
        else
            t->count_peak = s->live_count;
        if (kinds_of(t, s, step) == 0)
            continue;
        fresh += t->last_suspect == 0 || step >= t->last_suspect + FRESH_AFTER;
        t->last_suspect = step + 1;
    }
    return fresh;
}

void
ia_criterion_note_graph(uint32_t site, uint64_t nodes, uint32_t step)
{
    ia_site_totals *s = ia_ledger_site(site);
    if (s == NULL || reserve(site + 1) < 0 || step < state.warmup)
        return;
    note(&state.sites[site].graph, nodes, step, s);
}

/* Growth per step from the oldest high that is kept until now. */
static double
rate(double now, double then, uint32_t step, uint32_t since)
{
    return step > since ? (now - then) / (step - since) : 0;
}

static void
describe(uint32_t site, uint32_t kinds, uint32_t step, ia_suspect *out)
{
    const site_trends *t = &state.sites[site];
    const ia_site_totals *s = ia_ledger_site(site);
    const ia_trend *trend = &t->count;
    if (!(kinds & IA_GROWS_COUNT) && kinds & IA_GROWS_BYTES)
        trend = &t->bytes;
    else if (!(kinds & IA_GROWS_COUNT) && kinds & IA_GROWS_GRAPH)
        trend = &t->graph;
    const ia_high *first = oldest(trend);
    *out = (ia_suspect){
        .number = ia_site_number(site),
        .site = site,
        .kinds = kinds,
        .generations = s->generations,
        .live_count = s->live_count,
        .live_bytes = s->live_bytes,
        .cycle_bytes = s->cycle_bytes,
        .graph_nodes = t->graph.peak,
        .bytes_per_step = rate((double)s->live_bytes, (double)first->bytes,
                               step, first->step),
        .storages_per_step =
            rate(s->live_count, first->count, step, first->step),
        .first_step = first->step,
        .last_step = newest(trend)->step,
        .resets = t->resets,
        .phase = s->phase,
    };
    if (kinds & IA_GROWS_GRAPH)
        out->nodes_per_step =
            rate((double)newest(&t->graph)->value,
                 (double)oldest(&t->graph)->value,
                 newest(&t->graph)->step, oldest(&t->graph)->step);
}

int
ia_criterion_describe(uint32_t site, uint32_t step, ia_suspect *out)
{
    const ia_site_totals *s = ia_ledger_site(site);
    if (s == NULL || site >= state.nsites || s->live_count == 0)
        return 0;
    describe(site, kinds_of(&state.sites[site], s, step), step, out);
    return 1;
}

uint32_t
ia_criterion_suspects(uint32_t step, ia_suspect *out, uint32_t room)
{
    uint32_t found = 0, n = ia_ledger_sites();
    if (n > state.nsites)
        n = state.nsites;
    for (uint32_t i = 0; i < n; i++) {
        ia_site_totals *s = ia_ledger_site(i);
        uint32_t kinds = s->live_count || s->cycle_count
                             ? kinds_of(&state.sites[i], s, step)
                             : 0;
        if (s->cycle_generations >= state.window)
            kinds |= IA_GROWS_CYCLES;
        if (kinds == 0)
            continue;
        if (found < room)
            describe(i, kinds, step, &out[found]);
        found++;
    }
    return found;
}

void
ia_criterion_mark_sites(void)
{
    uint32_t step = ia_ledger_totals_now()->generation;
    for (uint32_t i = 0; i < state.nsites && i < ia_ledger_sites(); i++) {
        const ia_site_totals *s = ia_ledger_site(i);
        if (s->cycle_generations >= state.window ||
            kinds_of(&state.sites[i], s, step) != 0)
            ia_site_mark(i);
    }
}

void
ia_criterion_forget_site(uint32_t site)
{
    if (site < state.nsites)
        state.sites[site] = (site_trends){0};
}

size_t
ia_criterion_bytes(void)
{
    return state.nsites * sizeof *state.sites;
}
