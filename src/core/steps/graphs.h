/* Graphs that grow: how many nodes the newest tensor of each site keeps, and
 * what all of them take.
 *
 * All under the GIL.
 */
#ifndef IA_GRAPHS_H
#define IA_GRAPHS_H

#include <stdint.h>

void ia_graphs_reset(void);
/* Marks where in time a step ended, by the clock in force. */
void ia_graphs_end_step(void);
/* Graphs are probed as often as the criterion looks at a site: again after
 * this part of the run. */
#define IA_PROBES_PER_DOUBLING 16

/* Of those below, how many gave no answer since the reset, as memory was
 * short. */
uint64_t ia_graphs_lost(void);

/* Nodes that a probe visits at most. */
#define IA_PROBE_BUDGET 400000

/* Measures, `budget` nodes in all at most, and tells the criterion. */
void ia_graphs_probe(uint64_t budget);
/* Counts the nodes that live tensors lead to, each once, and what they take
 * themselves; 0 where there are more than `budget`, or another thread may be
 * changing them. */
int ia_graphs_weigh(uint64_t budget, uint64_t *nodes, uint64_t *bytes);
/* Nodes between one value and the next made from it that are looked at. */
#define IA_NODES_BACK 20000

/* Whether the graph of `root` leads back to another node, which had that
 * sequence number: nodes' addresses are used again, their numbers are not.  -1
 * where that is not known: it was not found among the `budget` nearest of those
 * that may lead to it, or memory is short.  Within a walk's brackets. */
int ia_graphs_lead_back(void *root, void *node, uint64_t sequence,
                        uint32_t budget);

#endif /* IA_GRAPHS_H */
