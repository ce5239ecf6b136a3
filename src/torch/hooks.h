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
    PyObject *optimizer_class; /* owned: torch.optim.Optimizer */
    PyObject *set_eval_frame;  /* owned: Dynamo's; NULL where there is none */
    PyObject *engine_type;   /* owned: our subclass of the engine's type */
    PyObject *engine;        /* owned: its one instance, NULL until used */
    int counts_threads;      /* loose_threads.c is installed for a watch */
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

/* share_hook.c: storages that move into shared memory (GIL). */
void ia_share_install(ia_torch_state *);
void ia_share_uninstall(void);
void ia_share_silence(void);

/* storage_hook.c: storages that Python makes (GIL).  0, or -1 with an
 * exception set. */
int ia_storage_install(ia_torch_state *);
int ia_storage_uninstall(ia_torch_state *);
void ia_storage_silence(void);

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

/* optimizer_classes.c: ia_framework's function by the same name. */
void ia_optimizer_classes_init(ia_torch_state *);
int ia_optimizer_classes(void);
void ia_optimizer_classes_silence(void);

/* dynamo.c: around Python code of ours in the middle of the program's, with no
 * exception set; the first gives what the second is given, a reference, or
 * NULL where nothing would be compiled. */
void ia_dynamo_init(ia_torch_state *);
PyObject *ia_dynamo_pause(void);
void ia_dynamo_resume(PyObject *);
void ia_dynamo_silence(void);

/* backward_hook.c.  0, or -1 with an exception set. */
int ia_backward_init(PyObject *module, ia_torch_state *);
int ia_backward_install(ia_torch_state *);
int ia_backward_uninstall(ia_torch_state *);
int ia_backward_installed(ia_torch_state *);

/* loose_threads.c: all with the GIL.  Each install needs its uninstall. */
void ia_loose_install(void);
void ia_loose_uninstall(void);
/* Nonzero where every thread that runs torch without the GIL is counted. */
int ia_loose_installed(void);
/* Nonzero where no other thread can change anything of torch's before the
 * caller lets go of the GIL. */
int ia_nobody_is_loose(void);
/* Nor has left a pointer to what is gone.  With `patience` it waits a little
 * for that, and may let go of the GIL before it does. */
int ia_world_stands_still(int patience);

/* script_edges.cpp: of TorchScript's objects (GIL). */
void ia_script_init(ia_torch_state *);
int ia_script_is_one(PyTypeObject *);

/* autograd_walk.cpp */
int ia_autograd_init(ia_torch_state *); /* 0, or -1 with an exception */
const ia_framework *ia_autograd_framework(void);
/* Nonzero where this thread runs inside the engine just now. */
int ia_autograd_in_graph_task(void);

/* graph_size.cpp */

typedef struct {
    size_t nodes;
    size_t saved_tensors;
    size_t saved_bytes;
    int reached_limit;
} ia_graph_size;

/* Counts what the graph behind a tensor keeps: 1, 0 where another thread may
 * be changing it, or -1 with an exception set. */
int ia_graph_measure(PyObject *tensor, size_t limit, ia_graph_size *);

/* tensor_info.cpp, those of ia_framework by the same name. */
int ia_tensor_describe(PyObject *, ia_tensor_info *);
int ia_tensor_storage_of(PyObject *, ia_storage *);
int ia_tensor_follow(PyObject *);
void ia_tensor_sweep(void);
/* Of a storage object of torch's, which keeps its storage alive: 1 and
 * *storage filled, or 0; and following what it refers to, weakly. */
int ia_storage_object_read(PyObject *, ia_storage *storage);
void ia_storage_object_follow(PyObject *);
/* Reports the birth of one that was just made, if no allocator has. */
void ia_storage_object_adopt(PyObject *);
/* What the objects in C++ behind a tensor take, of its own storage. */
size_t ia_tensor_object_bytes(void);

#ifdef __cplusplus
}

#include <cstddef>
#include <cstdint>

/* torch's classes are not ours to hide, nor are the library's functions. */
#pragma GCC visibility pop

#include <c10/core/Device.h>

#include <string_view>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
class DataPtr;
struct IValue;
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
/* True where the world stands still until the walk closes; outside of one,
 * where it does so just now. */
bool walk_opens(bool patience);
void walk_closes();
bool stands_still();

/* allocator_hook.cpp */
bool from_hooked_allocator(const c10::DataPtr &);
/* The storage was just made, perhaps of memory that came past our wrapper:
 * from here on it is as if it had come through it. */
void adopt_storage(c10::StorageImpl *);

/* tensor_info.cpp.  The storage is read with care where another thread may be
 * about to free it; false where that can't be done, or there is none. */
inline uint16_t
device_code(const c10::Device &device)
{
    int index = device.index() > 0 ? device.index() : 0;
    return static_cast<uint16_t>(static_cast<int>(device.type()) << 8 |
                                 (index & 0xff));
}
bool storage_info(const c10::StorageImpl *, ia_storage *);
bool storage_info(const c10::TensorImpl *, ia_storage *);

/* tensor_parts.cpp: tensors that another has besides its own memory, or in
 * place of it, how many; borrowed. */
struct Part {
    const at::Tensor *tensor;
    const char *name;
};
constexpr size_t kMostParts = 3;
size_t parts_of(const c10::TensorImpl &, Part (&parts)[kMostParts]);

/* script_edges.cpp: each tensor of a script's object, by the way to it;
 * nonzero stops. */
struct ScriptVisitor {
    virtual int visit(const at::Tensor &, const char *name) = 0;

  protected:
    ~ScriptVisitor() = default;
};

int visit_script(PyObject *, ScriptVisitor &);

/* saved_tensors.cpp */
enum class NodeKind {
    Generated, /* by torch, for an operator */
    Cpp,       /* of a Function written in C++ */
    Script,    /* of TorchScript */
    Python,
    AccumulateGrad,
    CopySlices,
    Other,
};

/* Receives what a node saved, one by one; nonzero stops. */
struct SavedVisitor {
    virtual int visit(const torch::autograd::SavedVariable &, const char *name,
                      Py_ssize_t ordinal) = 0;

    virtual int visit_tensor(const at::Tensor &, Py_ssize_t ordinal) = 0;

  protected:
    ~SavedVisitor() = default;
};

NodeKind node_kind(const torch::autograd::Node &);
/* What it takes with its vectors; 0 where its class is declared in no header
 * of torch's. */
size_t node_bytes(const torch::autograd::Node &);
int visit_saved(const torch::autograd::Node &, SavedVisitor &);

/* script_node.cpp */
using SavedList = std::vector<torch::autograd::SavedVariable>;

bool is_script_node(std::string_view type_name);
extern const size_t script_node_size;
/* What such a node saved, borrowed; false where it is not told. */
bool script_captures(const torch::autograd::Node &, const SavedList **tensors,
                     const std::vector<c10::IValue> **values);

/* What the C library takes for n bytes: eight more of its own, a multiple of
 * 16, and no less than 32.  malloc_usable_size() would know, but not every
 * object is the start of a block: make_shared puts it inside one. */
constexpr size_t
block_of(size_t bytes)
{
    size_t whole = (bytes + 8 + 15) / 16 * 16;
    return bytes == 0 ? 0 : whole < 32 ? 32 : whole;
}

} // namespace ia
#endif
#pragma GCC visibility pop
#endif /* IA_TORCH_HOOKS_H */
