/* What TorchScript's own node saved: one for a piece of a script's graph that
 * was differentiated as a whole.
 *
 * No header declares its class, so its members stand here once more.  What is
 * found at their places is taken only where it fits together: each vector ends
 * where it may, and there are as many tensors and values as the list of what
 * was captured says.
 */
#include "hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <cstring>

using torch::autograd::Node;

namespace {

enum Capture : uint8_t { kTensor, kList, kValue };

struct CaptureList {
    std::vector<Capture> kinds;
    ia::SavedList tensors;
    std::vector<c10::IValue> values;
    std::vector<size_t> sizes; /* of lists, whose tensors are all saved */
};

struct UnpackInstructions {
    std::vector<uint8_t> instructions;
    std::vector<size_t> sizes;
};

struct ScriptNode : public Node {
    torch::jit::GraphExecutor executor;
    CaptureList captures;
    UnpackInstructions instructions;
};

/* More than any piece of a graph captures. */
constexpr size_t kMostCaptures = 1 << 20;

/* A vector is three pointers: where it begins, where its items end and where
 * its memory does. */
template <typename T>
bool
is_vector(const std::vector<T> &vector)
{
    uintptr_t at[3];
    static_assert(sizeof(at) == sizeof(vector));

    memcpy(at, static_cast<const void *>(&vector), sizeof(at));
    return at[0] % alignof(T) == 0 && at[0] <= at[1] && at[1] <= at[2] &&
           (at[2] - at[0]) / sizeof(T) <= kMostCaptures &&
           (at[1] - at[0]) % sizeof(T) == 0 &&
           (at[2] - at[0]) % sizeof(T) == 0;
}

bool
fits_together(const CaptureList &captures)
{
    if (!is_vector(captures.kinds) || !is_vector(captures.tensors) ||
        !is_vector(captures.values) || !is_vector(captures.sizes)) {
        return false;
    }
    auto has = [&](Capture kind) {
        return static_cast<size_t>(std::count(
            captures.kinds.begin(), captures.kinds.end(), kind));
    };
    size_t tensors = has(kTensor);

    for (size_t size : captures.sizes) {
        tensors += size;
    }
    return captures.values.size() == has(kValue) &&
           captures.sizes.size() == has(kList) &&
           captures.tensors.size() == tensors &&
           captures.kinds.size() == has(kTensor) + has(kList) + has(kValue);
}

} // namespace

const size_t ia::script_node_size = sizeof(ScriptNode);

bool
ia::is_script_node(std::string_view type_name)
{
    return type_name == "N5torch3jit12_GLOBAL__N_1"
                        "27DifferentiableGraphBackwardE";
}

bool
ia::script_captures(const Node &node, const SavedList **tensors,
                    const std::vector<c10::IValue> **values)
{
    const CaptureList &captures =
        static_cast<const ScriptNode &>(node).captures;

    if (!fits_together(captures)) {
        return false;
    }
    *tensors = &captures.tensors;
    *values = &captures.values;
    return true;
}
