/* What TorchScript's objects hold: attributes and items that live in C++, and
 * that their Python objects do not show to the collector.
 *
 * Called with the GIL held while the world stands still: a script runs without
 * the GIL, and changes its lists as it goes.
 */
#include "hooks.h"

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/object.h>
#include <torch/csrc/jit/python/python_dict.h>
#include <torch/csrc/jit/python/python_list.h>

#include <string>
#include <unordered_set>

namespace {

/* Borrowed: torch._C keeps them for ever.  NULL where there is none. */
PyTypeObject *script_module;
PyTypeObject *script_object;
PyTypeObject *script_list;
PyTypeObject *script_dict;

/* Lists in lists, objects in objects. */
constexpr int kMostDepth = 16;
/* Bytes of "layers.0.cache[17]": what the core has room for. */
constexpr size_t kMostName = 119;

/* Hands out the tensors in a value, each under the way to it.  Containers may
 * hold one another, and themselves (List[Any]): each is gone through once. */
class Content {
  public:
    explicit Content(ia::ScriptVisitor &visitor) : visitor_(visitor)
    {
    }

    /* Of what a Python object stands for; `held` is a reference more. */
    int all(const c10::IValue &held)
    {
        was_seen(held);
        if (held.isObject()) {
            return attributes(held.toObjectRef(), 0, 0);
        }
        return held.isList() ? items(held.toListRef(), 0, 0)
                             : entries(held.toGenericDict(), 0, 0);
    }

  private:
    int attributes(const c10::ivalue::Object &object, size_t at, int depth)
    {
        auto type = object.type();
        const auto &slots = object.slots();
        for (size_t i = 0; i < slots.size() && i < type->numAttributes();
             i++) {
            auto name = type->getAttributeName(i);
            int stop = value(slots[i], put(at, (at ? "." : "") + name),
                             depth);
            if (stop) {
                return stop;
            }
        }
        return 0;
    }

    int value(const c10::IValue &value, size_t at, int depth)
    {
        if (value.isTensor()) {
            return visitor_.visit(value.toTensor(), name_.c_str());
        }
        if (is_plain(value) || depth == kMostDepth || was_seen(value)) {
            return 0;
        }
        if (value.isList()) {
            return items(value.toListRef(), at, depth + 1);
        }
        if (value.isTuple()) {
            return items(value.toTupleRef().elements().asArrayRef(), at,
                         depth + 1);
        }
        if (value.isGenericDict()) {
            return entries(value.toGenericDict(), at, depth + 1);
        }
        /* Python has an object of its own for a module in a module. */
        return value.isObject() && !value.toObjectRef().type()->is_module()
                   ? attributes(value.toObjectRef(), at, depth + 1)
                   : 0;
    }

    /* What has one reference is met once. */
    bool was_seen(const c10::IValue &container)
    {
        return container.use_count() > 1 &&
               !seen_.insert(container.internalToPointer()).second;
    }

    static bool is_plain(const c10::IValue &value)
    {
        return !(value.isTensor() || value.isList() || value.isTuple() ||
                 value.isGenericDict() || value.isObject());
    }

    int items(c10::ArrayRef<c10::IValue> items, size_t at, int depth)
    {
        int stop = 0;
        for (size_t i = 0; !stop && i < items.size(); i++) {
            if (!is_plain(items[i])) {
                stop = value(items[i], put_index(at, std::to_string(i)),
                             depth);
            }
        }
        return stop;
    }

    int entries(const c10::impl::GenericDict &dict, size_t at, int depth)
    {
        int stop = 0;
        for (const auto &entry : dict) {
            if (!is_plain(entry.value())) {
                stop = value(entry.value(), put_key(at, entry.key()), depth);
            }
            if (stop) {
                break;
            }
        }
        return stop;
    }

    size_t put_key(size_t at, const c10::IValue &key)
    {
        if (key.isInt()) {
            return put_index(at, std::to_string(key.toInt()));
        }
        bool literal = key.isString();
        const std::string text = literal ? key.toStringRef() : "";
        for (char c : text) {
            literal = literal && c >= ' ' && c <= '~' && c != '\'' &&
                      c != '\\';
        }
        return put_index(at, literal ? "'" + text + "'" : "<key>");
    }

    size_t put_index(size_t at, const std::string &text)
    {
        return put(at, "[" + text + "]");
    }

    /* Writes behind what leads there; where that ends.  What is cut is no
     * Python. */
    size_t put(size_t at, const std::string &text)
    {
        static const std::string cut = "<...>";
        name_.resize(at);
        name_ += text;
        if (name_.size() > kMostName) {
            name_.resize(kMostName - cut.size());
            name_ += cut;
        }
        return name_.size();
    }

    ia::ScriptVisitor &visitor_;
    std::string name_;
    std::unordered_set<const void *> seen_;
};

/* pybind11 has the C++ object's address behind the head. */
template <class T>
T *
behind(PyObject *wrapper)
{
    return *reinterpret_cast<T **>(reinterpret_cast<char *>(wrapper) +
                                   sizeof(PyObject));
}

} // namespace

static PyTypeObject *
find_type(PyObject *torch_c, const char *name)
{
    PyObject *type = PyObject_GetAttrString(torch_c, name);
    Py_XDECREF(type); /* the module has it */
    PyErr_Clear();
    return reinterpret_cast<PyTypeObject *>(type);
}

void
ia_script_init(ia_torch_state *state)
{
    script_module = find_type(state->torch_c, "ScriptModule");
    script_object = find_type(state->torch_c, "ScriptObject");
    script_list = find_type(state->torch_c, "ScriptList");
    script_dict = find_type(state->torch_c, "ScriptDict");
}

int
ia_script_is_one(PyTypeObject *type)
{
    return type == script_module || type == script_object ||
           type == script_list || type == script_dict;
}

int
ia::visit_script(PyObject *wrapper, ScriptVisitor &visitor)
{
    if (behind<void>(wrapper) == nullptr) {
        return 0;
    }
    Content content(visitor);
    if (Py_TYPE(wrapper) == script_list) {
        return content.all(behind<torch::jit::ScriptList>(wrapper)->list_);
    }
    if (Py_TYPE(wrapper) == script_dict) {
        return content.all(behind<torch::jit::ScriptDict>(wrapper)->dict_);
    }
    return content.all(behind<torch::jit::Object>(wrapper)->_ivalue());
}
