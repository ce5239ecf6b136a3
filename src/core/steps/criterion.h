/* The criterion: which sites keep theirs step after step.
 *
 * Constant work per site and boundary, none per storage.  Counts alone can't
 * tell a leak from a cache that fills: a suspect is somewhere to look, and
 * only a look at its holder gives a verdict.
 */
#ifndef IA_CRITERION_H
#define IA_CRITERION_H

#include <stddef.h>
#include <stdint.h>

/* Highs kept per trend: enough to tell a steady rate from a slowing one. */
#define IA_TREND_HIGHS 16

/* One boundary at which a measure was higher than ever before. */
typedef struct {
    uint32_t step;
    uint32_t count;
    uint64_t bytes;
    uint64_t value;
} ia_high;

typedef struct {
    uint64_t peak;
    uint32_t nhighs; /* ever; the ring holds the newest */
    uint32_t misses; /* notes since the last high */
    ia_high highs[IA_TREND_HIGHS];
} ia_trend;

enum {
    IA_GROWS_COUNT = 1, /* survivors span ever more generations */
    IA_GROWS_BYTES = 2, /* a bounded number of storages grows in bytes */
    IA_GROWS_GRAPH = 4, /* the graph behind a tensor grows in nodes */
    IA_GROWS_CYCLES = 8, /* dies only when the collector runs */
};

typedef struct {
    uint64_t number; /* the site's, for those who keep it */
    uint32_t site;
    uint32_t kinds;
    uint32_t generations;
    uint32_t live_count;
    uint64_t live_bytes;
    uint64_t cycle_bytes;
    uint64_t graph_nodes;
    double bytes_per_step;
    double storages_per_step;
    double nodes_per_step;
    uint32_t first_step; /* oldest high that still counts */
    uint32_t last_step;  /* newest high */
    uint32_t resets;
    uint16_t phase;
} ia_suspect;

/* The ledger's lock is held for all of these. */
void ia_criterion_reset(uint32_t warmup, uint32_t window);
/* Notes every site at the end of step `step`.  Returns the number of sites
 * that are suspect now and were not before. */
uint32_t ia_criterion_note(uint32_t step);
/* Notes how many graph nodes the newest tensor of a site keeps alive. */
void ia_criterion_note_graph(uint32_t site, uint64_t nodes, uint32_t step);
/* Fills at most `room`; returns how many there are. */
uint32_t ia_criterion_suspects(uint32_t step, ia_suspect *out, uint32_t room);
/* The same of one site, suspect or not; 0 where nothing of it is alive. */
int ia_criterion_describe(uint32_t site, uint32_t step, ia_suspect *out);

/* The past of one site, whatever of it is still alive. */
typedef struct {
    int growing;    /* by its highs alone: a program's end drops what it kept */
    uint32_t peak;  /* generations */
    uint32_t resets; /* times that most of them were let go together */
    uint32_t last_reset; /* step */
    uint32_t last_high;  /* step, of any of its trends */
} ia_past;

ia_past ia_criterion_past(uint32_t site, uint32_t step);
/* For a sweep: suspects stay; what was known of a dropped site is not told of
 * the next one with its id. */
void ia_criterion_mark_sites(void);
void ia_criterion_forget_site(uint32_t site);
size_t ia_criterion_bytes(void);

#endif /* IA_CRITERION_H */
