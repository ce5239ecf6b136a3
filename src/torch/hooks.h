/* What the parts of impactarbiter._torch offer one another, grouped by the
 * file that owns it.  C by default; the C++ half is at the end.
 *
 * Locks: the hooks take none of their own.  Slots of Python types and the
 * engine are changed with the GIL held; the allocator hook runs without it
 * and reads only what is written once.
 */
#ifndef IA_TORCH_HOOKS_H
#define IA_TORCH_HOOKS_H

#include "../core/base/core_api.h"
#include "guard.h"

#pragma GCC visibility push(hidden)
#ifdef __cplusplus
extern "C" {
#endif

/* module.c */

/* Objects of torch that the hooks need for as long as the module lives. */
typedef struct {
    PyObject *torch_c;       /* owned: torch._C */
    PyObject *tensor_base;   /* owned: torch._C.TensorBase */
    PyObject *storage_base;  /* owned: torch._C.StorageBase */
    PyObject *function_base; /* owned: torch._C._FunctionBase */
    PyObject *variable;      /* owned: torch.autograd.Variable */
    PyObject *module_class;  /* owned: torch.nn.Module */
    PyObject *engine_type;   /* owned: our subclass of the engine's type */
    PyObject *engine;        /* owned: its one instance, NULL until used */
} ia_torch_state;

/* The core's table: set once, by exec, before any hook can run. */
extern const ia_core_api *ia_api;

/* allocator_hook.cpp.  0, or -1 with an exception set. */
int ia_allocator_install(void);
void ia_allocator_uninstall(void);
int ia_allocator_installed(void);
void ia_allocator_silence(void); /* no births from here on; deaths stay */

/* tensor_hook.c.  0, or -1 with an exception set. */
int ia_tensor_install(ia_torch_state *);
int ia_tensor_rescan(ia_torch_state *);
int ia_tensor_uninstall(ia_torch_state *);
int ia_tensor_installed(ia_torch_state *);
void ia_tensor_silence(void);

/* module_hook.c.  0, or -1 with an exception set. */
int ia_module_install(ia_torch_state *);
int ia_module_rescan(ia_torch_state *);
int ia_module_uninstall(ia_torch_state *);
int ia_module_installed(ia_torch_state *);
/* Counts a birth; 1 when it is time to look for new classes. */
int ia_module_rescan_is_due(void);
void ia_module_silence(void);

/* class_tree.c: visits `base` and all its subclasses, which are held only
 * meanwhile.  0, or -1 with an exception set. */
int ia_class_tree_visit(PyObject *base, void (*visit)(PyTypeObject *));

/* backward_hook.c.  0, or -1 with an exception set. */
int ia_backward_init(PyObject *module, ia_torch_state *);
int ia_backward_install(ia_torch_state *);
int ia_backward_uninstall(ia_torch_state *);
int ia_backward_installed(ia_torch_state *);
/* Nonzero while a thread other than this one runs a backward. */
int ia_backward_elsewhere(void);

/* autograd_walk.cpp */
int ia_autograd_init(ia_torch_state *); /* 0, or -1 with an exception */
const ia_framework *ia_autograd_framework(void);
/* Nonzero where this thread runs inside the engine just now. */
int ia_autograd_in_graph_task(void);

const char *ia_autograd_torch_version(void);

/* graph_size.cpp */

typedef struct {
    size_t nodes;
    size_t saved_tensors;
    size_t saved_bytes;
    int reached_limit;
} ia_graph_size;

/* Counts what the graph behind a tensor keeps: 1, 0 where a backward runs
 * in another thread, or -1 with an exception set. */
int ia_graph_measure(PyObject *tensor, size_t limit, ia_graph_size *);

/* saved_tensors.cpp */
int ia_saved_init(PyObject *torch_c); /* 0, or -1 with an exception set */

/* tensor_info.cpp, those of ia_framework by the same name. */
int ia_tensor_describe(PyObject *, ia_tensor_info *);
int ia_tensor_storage_of(PyObject *, ia_storage *);
int ia_tensor_follow(PyObject *);
void ia_tensor_sweep(void);

#ifdef __cplusplus
}

#include <cstdint>

/* torch's classes are not ours to hide. */
#pragma GCC visibility pop

namespace at {
class Tensor;
}
namespace c10 {
class DataPtr;
struct Device;
struct StorageImpl;
struct TensorImpl;
} // namespace c10
namespace torch::autograd {
struct Node;
class SavedVariable;
} // namespace torch::autograd
#pragma GCC visibility push(hidden)

namespace ia {

/* autograd_edges.cpp: ia_framework's functions by the same name; may throw */
int expand_node(torch::autograd::Node &, ia_sink *);
int expand_object(PyObject *, ia_kind, ia_sink *);
/* In between, every node handed to a sink is held. */
void walk_opens();
void walk_closes();

/* allocator_hook.cpp */
bool from_hooked_allocator(const c10::DataPtr &);

/* tensor_info.cpp */
uint16_t device_code(const c10::Device &);
bool storage_info(c10::StorageImpl *, ia_storage *);
bool storage_info(const c10::TensorImpl *, ia_storage *);

/* saved_tensors.cpp */
enum class NodeKind { Cpp, Python, AccumulateGrad, CopySlices };

/* Receives what a node saved, one by one; nonzero stops. */
struct SavedVisitor {
    virtual int visit(const torch::autograd::SavedVariable &, const char *name,
                      Py_ssize_t ordinal) = 0;

    virtual int visit_tensor(const at::Tensor &, Py_ssize_t ordinal) = 0;

  protected:
    ~SavedVisitor() = default;
};

NodeKind node_kind(const torch::autograd::Node &);
int visit_saved(torch::autograd::Node &, SavedVisitor &);

} // namespace ia
#endif
#pragma GCC visibility pop
#endif /* IA_TORCH_HOOKS_H */
