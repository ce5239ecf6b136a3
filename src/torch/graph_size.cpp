/* How much one graph keeps: a walk over nodes alone that counts them and
 * adds up what they saved.  It is a user of the framework table like the
 * core, so that both see the same edges.
 */
#include "hooks.h"

#include <c10/util/flat_hash_map.h>

#include <vector>

namespace {

class Counter : public ia_sink {
  public:
    Counter(size_t limit, ia_graph_size *size)
        : ia_sink{&on_object, &on_node, &on_storage, nullptr},
          walk_(*ia_autograd_framework()), limit_(limit), size_(size)
    {
    }

    void run(void *start)
    {
        add_node(start);
        while (!queue_.empty() && !size_->reached_limit) {
            void *next = queue_.back();
            queue_.pop_back();
            walk_.expand_node(next, this);
        }
    }

  private:
    static int on_object(ia_sink *self, PyObject *object, ia_edge_kind kind,
                         const char *, Py_ssize_t)
    {
        auto &counter = *static_cast<Counter *>(self);
        if (kind == IA_EDGE_FUNCTION) {
            return counter.walk_.expand_object(object, IA_KIND_FUNCTION, self);
        }
        if ((kind == IA_EDGE_SAVED || kind == IA_EDGE_PACKED) &&
            counter.walk_.kind_of_type(Py_TYPE(object)) == IA_KIND_TENSOR) {
            ia_storage found;
            counter.add_storage(
                ia_tensor_storage_of(object, &found) ? &found : nullptr);
            counter.add_node(counter.walk_.grad_fn_of(object));
        }
        return 0;
    }

    static int on_node(ia_sink *self, void *node, ia_edge_kind, const char *,
                       Py_ssize_t)
    {
        static_cast<Counter *>(self)->add_node(node);
        return 0;
    }

    static int on_storage(ia_sink *self, const ia_storage *storage,
                          ia_edge_kind kind, const char *, Py_ssize_t)
    {
        if (kind == IA_EDGE_SAVED) {
            static_cast<Counter *>(self)->add_storage(storage);
        }
        return 0;
    }

    void add_node(void *node)
    {
        if (node == nullptr || nodes_.count(node) != 0) {
            return;
        }
        if (size_->nodes >= limit_) {
            size_->reached_limit = 1;
            return;
        }
        nodes_.insert(node);
        size_->nodes++;
        queue_.push_back(node);
    }

    void add_storage(const ia_storage *storage)
    {
        size_->saved_tensors++;
        if (storage != nullptr && storages_.insert(storage->impl).second) {
            size_->saved_bytes += storage->bytes;
        }
    }

    const ia_framework &walk_;
    size_t limit_;
    ia_graph_size *size_;
    std::vector<void *> queue_;
    ska::flat_hash_set<void *> nodes_;
    ska::flat_hash_set<uintptr_t> storages_;
};

} // namespace

int
ia_graph_measure(PyObject *tensor, size_t limit, ia_graph_size *size)
{
    const ia_framework &walk = *ia_autograd_framework();
    int result = 0;
    if (walk.walk_begin(1)) {
        result = ia::guarded(-1, [&] {
            Counter counter(limit, size);
            counter.run(walk.grad_fn_of(tensor));
            return 1;
        });
    }
    walk.walk_end();
    if (result < 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the autograd graph could not be read");
    }
    return result;
}
