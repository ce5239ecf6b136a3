/* What is freed only when several references are cut at once. */
#ifndef IA_SHARED_H
#define IA_SHARED_H

#include "holders.h"

/* For each holder whose cuts alone free nothing, as something else holds the
 * same: measures it with all tensors of its lines cut from what they lead to,
 * wherever they are held.  Sets shared[i] where that frees something, and
 * costs[i] to what.  Tensors that go together (retained.h) are cut together, and
 * each is charged with what that frees.  One more walk, and none where no
 * holder is like that.  0, or -1 when memory is short. */
int ia_shared_measure(const ia_walk *, const ia_groups *, const ia_holders *,
                      ia_cost *costs, uint8_t *shared,
                      const uint32_t *together);

#endif /* IA_SHARED_H */
