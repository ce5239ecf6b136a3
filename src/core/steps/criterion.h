/* The criterion: which lines keep what they make, on whatever scale.
 *
 * One question, asked of the survivors by time of birth (survivors.h): is
 * there a stretch of the run, from some bucket until now, all along which
 * storages were born that are still alive, and that is older than anything
 * that ever ended here twice over?  No scale is chosen beforehand and no work
 * is done per step: a site is checked when its current bucket turns, some
 * sixteen times per doubling of the run, and once for the report.
 *
 * Lines are suspected, holders are judged: a container that fills for the
 * first time looks the same from here.
 */
#ifndef IA_CRITERION_H
#define IA_CRITERION_H

#include "../ledger/ledger.h"

#include <stddef.h>
#include <stdint.h>

/* Positions that a stretch must span: for a report, which is the last word,
 * and for a word while the run goes on, when a buffer may still be filling. */
#define IA_AGE_FOR_REPORT 8
#define IA_AGE_TO_TELL 12
/* Buckets with survivors that go with these ages; another window asks for an
 * answer after fewer positions, or more. */
#define IA_USUAL_WINDOW 5

enum {
    IA_GROWS_COUNT = 1, /* every stretch of the run leaves survivors */
    IA_GROWS_BYTES = 2, /* as many storages, of ever more bytes */
    IA_GROWS_GRAPH = 4, /* the graph behind its newest tensor grows */
    IA_GROWS_ANEW = 8, /* with BYTES: ever more storages, all of them new */
    IA_GROWS_STEADILY = 16, /* with COUNT: so does the least that is alive */
};

typedef struct {
    uint64_t number; /* the site's, for those who keep it */
    uint32_t site;
    uint32_t kinds;
    uint32_t since; /* position at which the stretch begins */
    uint32_t life;  /* longest lifetime that ended, in positions */
    uint32_t live_count;
    uint32_t survivors; /* of the stretch */
    uint64_t live_bytes;
    uint64_t cycle_bytes;
    uint64_t graph_nodes; /* when last probed */
    uint16_t phase;
    uint16_t device; /* of its last birth */
} ia_suspect;

/* A site with ever more of it, of whatever is alive by now. */
typedef struct {
    uint64_t number;
    ia_survivors by; /* its last bucket is over */
    uint16_t device; /* of its last birth */
} ia_rise;

/* The question itself, of any survivors: adds kinds, since and survivors to
 * what *out says, and nothing where they do not grow. */
void ia_criterion_ask(const ia_survivors *, uint32_t now, uint32_t age,
                      uint32_t window, ia_suspect *out);

/* The ledger's lock is held for all of these. */
void ia_criterion_reset(uint32_t warmup, uint32_t window);
/* When a stronger kind of event begins to count, what was seen of graphs was
 * seen at positions of another kind. */
void ia_criterion_forget_positions(void);
/* Checks the sites whose bucket has turned; how many grow and are old enough
 * to be told of, and how many of these did not when they were checked last. */
uint32_t ia_criterion_check(ia_clock clock, uint32_t *fresh);
/* Notes how many graph nodes the newest tensor of a site keeps alive. */
void ia_criterion_note_graph(uint32_t site, uint64_t nodes);
/* Those of the last probe, 0 before the first. */
uint64_t ia_criterion_graph(uint32_t site);
/* No position comes any more, only ticks: what is noted of graphs from now on
 * is also asked of by itself. */
void ia_criterion_begin_silence(void);
/* Does the graph behind some site's newest tensors grow since then? */
int ia_criterion_grows_in_silence(void);
/* Fills at most `room` of the sites that grow for at least `age` positions;
 * returns how many there are. */
uint32_t ia_criterion_suspects(ia_clock clock, uint32_t age, ia_suspect *out,
                               uint32_t room);
/* Fills at most `room` of the sites whose least bytes have risen since a
 * fourth of the run, by at least a part in `room` of all that rose; returns
 * how many these are. */
uint32_t ia_criterion_rises(ia_clock clock, ia_rise *out, uint32_t room);
/* For a sweep: what was known of a dropped site is not told of the next one
 * with its id. */
void ia_criterion_forget_site(uint32_t site);
size_t ia_criterion_bytes(void);

#endif /* IA_CRITERION_H */
