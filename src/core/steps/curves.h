/* The run's curves: what memory was like at boundaries, thinned.
 *
 * Exact figures from the ledger's own totals, of bounded size however long the
 * run is.  All under the GIL.
 */
#ifndef IA_CURVES_H
#define IA_CURVES_H

#include "../base/columns.h"
#include "../base/core_api.h"

#define IA_EVENTS (IA_EVENT_TURN + 1)

/* Lines whose live bytes are kept apart. */
#define IA_CURVE_LINES 12

void ia_curves_reset(void);
/* Is a point due at this tick? */
int ia_curves_due(uint32_t tick);
/* Notes one; 1 where the process was just seen, for the first time, to grow
 * beside its tensors and arrays. */
int ia_curves_note(uint32_t tick, const uint32_t *counts, double seconds);
/* Was it ever seen to? */
int ia_curves_rise(void);
/* Notes what the autograd graphs that live tensors lead to take. */
void ia_curves_note_nodes(const uint32_t *counts, uint64_t nodes,
                          uint64_t bytes);
/* For a sweep: the id will be another line's.  Under the ledger's lock. */
void ia_curves_forget_site(uint32_t site);

/* What a moment was like, in bytes but for the tick, the events of each kind
 * so far in the order of IA_EVENT_*, the phase's number and the seconds since
 * the start.  `host`: of the live ones in the process's own memory; `resident`
 * was read now and then, `heap` is what is in use of malloc's but these and
 * our own tables, 0: not asked just then; `allocated` and `reserved` of the
 * devices whose allocator reports to us. */
#define IA_POINT_COLUMNS(C)                                                  \
    C(f8, seconds)                                                           \
    C(u8, live_bytes)                                                        \
    C(u8, host_bytes)                                                        \
    C(u8, resident_bytes)                                                    \
    C(u8, heap_bytes)                                                        \
    C(u8, allocated_bytes)                                                   \
    C(u8, reserved_bytes)                                                    \
    C(u4, tick)                                                              \
    C(u4, optimizer)                                                         \
    C(u4, backward)                                                          \
    C(u4, module)                                                            \
    C(u4, compiled)                                                          \
    C(u4, manual)                                                            \
    C(u4, turn)                                                              \
    C(u4, phase)

typedef struct {
    IA_POINT_COLUMNS(IA_ROW_FIELD)
} ia_point;

/* A line that is kept apart, from the point `since` on; of the bytes by line
 * its are the column of that number. */
typedef struct {
    uint64_t site; /* its number */
    uint32_t since, column;
} ia_curve_line;

/* Nodes that live tensors led to. */
typedef struct {
    uint32_t counts[IA_EVENTS];
    uint64_t nodes, bytes;
} ia_curve_nodes;

uint32_t ia_curves_count(void);
/* Copies points, oldest first, and IA_CURVE_LINES columns of bytes a point
 * beside them; how many there were room for. */
uint32_t ia_curves_copy(ia_point *, uint64_t *lines, uint32_t room);
/* Up to IA_CURVE_LINES of them; how many. */
int ia_curves_lines(ia_curve_line *);
uint32_t ia_curves_nodes(const ia_curve_nodes **);

/* Events of each kind, as a tuple. */
PyObject *ia_counts_build(const uint32_t *counts);

#endif /* IA_CURVES_H */
