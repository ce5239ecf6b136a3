/* What torch's C++ throws while we look at it ends here: no exception leaves
 * a function that the core or Python calls.
 */
#ifndef IA_TORCH_GUARD_H
#define IA_TORCH_GUARD_H

#include <stdint.h>

#pragma GCC visibility push(hidden)
#ifdef __cplusplus
extern "C" {
#endif

/* How often looking at something of torch's ended in a C++ exception. */
uint64_t ia_failures(void);
void ia_failures_count(void);

#ifdef __cplusplus
}

namespace ia {

/* Runs f; whatever it throws is counted and `otherwise` returned. */
template <typename F, typename R>
R
guarded(R otherwise, F &&f) noexcept
{
    try {
        return f();
    }
    catch (...) {
        ia_failures_count();
        return otherwise;
    }
}

} // namespace ia
#endif
#pragma GCC visibility pop
#endif /* IA_TORCH_GUARD_H */
