/* The criterion on a trace: births and deaths as the ledger counts them. */

#include "replay.h"

#include <stdlib.h>

/* Is it one of the rules' sites, and does time not go back? */
static int
is_event(const ia_trace_event *e, int64_t before, const ia_trace_rules *rules)
{
    return e->site >= 0 && e->site < rules->sites && e->now >= before &&
           e->now <= rules->end && e->born >= -1 && e->born <= e->now;
}

static void
count(const ia_trace_event *e, ia_survivors *s, ia_suspect *site)
{
    uint32_t now = (uint32_t)e->now, born = (uint32_t)e->born;
    ia_survivors_advance(s, now, site->live_count, site->live_bytes);
    if (e->bytes >= 0) {
        site->live_count++;
        site->live_bytes += (uint64_t)e->bytes;
        ia_survivors_born(s, born);
    } else if (e->born >= 0 && site->live_count > 0) {
        site->live_count--;
        site->live_bytes -= (uint64_t)-e->bytes;
        ia_survivors_left(s, now, site->live_count, site->live_bytes);
        ia_survivors_died(s, born, now, 1);
    }
}

int
ia_replay(const ia_trace_event *events, size_t n, const ia_trace_rules *rules,
          ia_suspect *out)
{
    int64_t before = 0;
    ia_survivors *by = calloc((size_t)rules->sites + 1, sizeof *by);
    if (by == NULL)
        return -1;
    for (uint32_t i = 0; i < rules->sites; i++) {
        ia_survivors_reset(&by[i], rules->warmup);
        out[i] = (ia_suspect){.site = i};
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_event(&events[i], before, rules)) {
            free(by);
            return 1;
        }
        before = events[i].now;
        count(&events[i], &by[events[i].site], &out[events[i].site]);
    }
    for (uint32_t i = 0; i < rules->sites; i++) {
        ia_survivors_advance(&by[i], rules->end, out[i].live_count,
                             out[i].live_bytes);
        ia_criterion_ask(&by[i], rules->end, rules->age, rules->window,
                         &out[i]);
        out[i].life = by[i].life;
    }
    free(by);
    return 0;
}
