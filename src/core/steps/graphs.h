/* Graphs that grow: how many nodes the newest tensor of each site keeps.
 *
 * All under the GIL.
 */
#ifndef IA_GRAPHS_H
#define IA_GRAPHS_H

#include <stdint.h>

void ia_graphs_reset(void);
/* Marks where in time a step ended, by the clock in force. */
void ia_graphs_end_step(void);
/* Measures, `budget` nodes in all at most, and tells the criterion. */
void ia_graphs_probe(uint64_t budget);

#endif /* IA_GRAPHS_H */
