/* What TorchScript's objects hold: attributes that live in C++, and that their
 * Python objects do not show to the collector.
 *
 * Called with the GIL held while the world stands still: a script runs without
 * the GIL, and changes its lists as it goes.
 */
#include "hooks.h"

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/object.h>

#include <cstdio>
#include <cstring>

namespace {

/* Borrowed: torch._C keeps them for ever.  NULL where there is none. */
PyTypeObject *script_module;
PyTypeObject *script_object;

/* Lists in lists, objects in objects; a script's object may hold itself. */
constexpr int kMostDepth = 16;
/* Bytes of "layers.0.cache[17]". */
constexpr size_t kNameSize = 120;

/* Hands out the tensors in a value, each under the way to it. */
class Content {
  public:
    explicit Content(ia::ScriptVisitor &visitor) : visitor_(visitor)
    {
    }

    int attributes(const c10::ivalue::Object &object, size_t at, int depth)
    {
        auto type = object.type();
        const auto &slots = object.slots();
        for (size_t i = 0; i < slots.size() && i < type->numAttributes();
             i++) {
            auto name = type->getAttributeName(i);
            size_t end = put(at, "%s%s", at ? "." : "", name.c_str());
            int stop = value(slots[i], end, depth);
            if (stop) {
                return stop;
            }
        }
        return 0;
    }

  private:
    int value(const c10::IValue &value, size_t at, int depth)
    {
        if (value.isTensor()) {
            return visitor_.visit(value.toTensor(), name_);
        }
        if (depth == kMostDepth) {
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
                stop = value(items[i], put(at, "[%zu]", i), depth);
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
            return put(at, "[%lld]", static_cast<long long>(key.toInt()));
        }
        const char *text = key.isString() ? key.toStringRef().c_str() : "'";
        bool literal = true;
        for (const char *c = text; *c != 0; c++) {
            literal = literal && *c >= ' ' && *c <= '~' && *c != '\'' &&
                      *c != '\\';
        }
        return literal ? put(at, "['%s']", text) : put(at, "[<key>]");
    }

    /* Writes behind what leads there; where that ends.  What is cut is no
     * Python. */
    template <typename... Arguments>
    size_t put(size_t at, const char *format, Arguments... arguments)
    {
        static const char cut[] = "<...>";
        size_t room = kNameSize - at;
        int size = snprintf(name_ + at, room, format, arguments...);
        if (size >= 0 && static_cast<size_t>(size) < room) {
            return at + static_cast<size_t>(size);
        }
        memcpy(name_ + kNameSize - sizeof cut, cut, sizeof cut);
        return kNameSize - 1;
    }

    ia::ScriptVisitor &visitor_;
    char name_[kNameSize] = "";
};

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
}

int
ia_script_is_one(PyTypeObject *type)
{
    return type == script_module || type == script_object;
}

int
ia::visit_script(PyObject *wrapper, ScriptVisitor &visitor)
{
    /* pybind11 has the C++ object's address behind the head. */
    auto *object = *reinterpret_cast<torch::jit::Object **>(
        reinterpret_cast<char *>(wrapper) + sizeof(PyObject));
    return object == nullptr
               ? 0
               : Content(visitor).attributes(*object->_ivalue(), 0, 0);
}
