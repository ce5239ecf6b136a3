/* Where torch's versions differ, and how to reach members it keeps private.
 * Differences are found by what a type offers, not by a version number, so
 * that a patch release can't be guessed wrong.  Checked against the headers
 * of torch 2.13; 2.11 holds nodes by shared_ptr and has PyNode::obj.
 */
#ifndef IA_TORCH_COMPAT_H
#define IA_TORCH_COMPAT_H

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <optional>
#include <type_traits>

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif

namespace ia {

template <typename Tag, typename Tag::type Member> struct Expose {
    friend typename Tag::type reach(Tag)
    {
        return Member;
    }
};

/* Access rules are not applied to the arguments of an explicit
 * instantiation ([temp.spec.general]), so this is well formed. */
#define IA_EXPOSE(TAG, CLASS, TYPE, MEMBER)      \
    namespace ia {                               \
    struct TAG {                                 \
        using type = TYPE CLASS::*;              \
        friend type reach(TAG);                  \
    };                                           \
    template struct Expose<TAG, &CLASS::MEMBER>; \
    }                                            \
    using ia::TAG

/* shared_ptr<Node> up to 2.11, intrusive_ptr<Node> later. */
using NodePtr = decltype(torch::autograd::Edge::function);

/* Up to 2.11 a member of the node's; its pyobj() is another thing. */
template <typename P>
PyObject *
python_function_of(P *node)
{
    if constexpr (requires { node->obj; }) {
        return node->obj;
    }
    else {
        return node->pyobj();
    }
}

/* The node that a ctx owns; NULL where it knows it only weakly. */
template <typename F>
torch::autograd::Node *
node_of_function(F *function)
{
    if constexpr (requires { function->cdata.get(); }) {
        return function->cdata.get();
    }
    else {
        return nullptr;
    }
}

/* What a saved tensor's hooks hold: bare pointers up to 2.13, later ones that
 * know when they are empty. */
template <typename H>
using HookObject = std::conditional_t<
    requires(const H &hooks) { hooks.retrieve_unpack_hook(); },
    std::optional<c10::SafePyObject>, PyObject *>;

inline PyObject *
borrowed(PyObject *object)
{
    return object;
}

inline PyObject *
borrowed(const std::optional<c10::SafePyObject> &object)
{
    return object ? object->ptr(&object->pyinterpreter()) : nullptr;
}

} // namespace ia
#endif /* IA_TORCH_COMPAT_H */
