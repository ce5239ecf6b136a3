"""What Python and PyTorch do with an object: ask for it, show its memory, give
it on."""

from __future__ import annotations

from .containers import ANY, GROWING

#: Methods that give a tensor of its own memory.
FRESH_METHODS = frozenset(
    [
        "abs",
        "add",
        "argmax",
        "argmin",
        "backward",
        "clamp",
        "clone",
        "div",
        "eq",
        "exp",
        "ge",
        "gt",
        "le",
        "log",
        "log_softmax",
        "lt",
        "matmul",
        "max",
        "mean",
        "median",
        "min",
        "mul",
        "ne",
        "neg",
        "norm",
        "pow",
        "prod",
        "relu",
        "sigmoid",
        "softmax",
        "sqrt",
        "square",
        "std",
        "sub",
        "sum",
        "tanh",
        "var",
    ]
)
#: What shows the memory of a tensor that it is called of, or given.
VIEWS = frozenset(
    [
        "as_strided",
        "as_subclass",
        "as_tensor",
        "asarray",
        "atleast_1d",
        "chunk",
        "contiguous",
        "cpu",
        "cuda",
        "data",
        "detach",
        "diagonal",
        "double",
        "expand",
        "expand_as",
        "flatten",
        "float",
        "from_dlpack",
        "from_numpy",
        "half",
        "imag",
        "mT",
        "movedim",
        "narrow",
        "numpy",
        "permute",
        "ravel",
        "real",
        "requires_grad_",
        "reshape",
        "select",
        "split",
        "squeeze",
        "swapaxes",
        "t",
        "T",
        "to",
        "transpose",
        "type",
        "type_as",
        "unbind",
        "unflatten",
        "unfold",
        "unsqueeze",
        "view",
        "view_as",
    ]
)
#: Calls that give what they are given, or what is in it.
PASSING = frozenset(
    [
        "deque",
        "dict",
        "enumerate",
        "filter",
        "iter",
        "list",
        "max",
        "min",
        "next",
        "reversed",
        "sorted",
        "tuple",
        "zip",
    ]
)
#: Methods that give what is in a container.
TAKING = frozenset(
    [
        "__getitem__",
        "copy",
        "get",
        "items",
        "pop",
        "popitem",
        "popleft",
        "setdefault",
        "values",
    ]
)
#: Modules whose functions make another tensor, but for views.
MODULES = frozenset({"F", "functional", "math", "nn", "torch"})
#: Attributes of a tensor that have nothing of it.
APART = frozenset(
    [
        "__class__",
        "__name__",
        "device",
        "dtype",
        "grad",
        "grad_fn",
        "is_leaf",
        "layout",
        "ndim",
        "requires_grad",
        "shape",
    ]
)
MAKING = frozenset({*GROWING, "Counter", "frozenset", "sorted", "tuple"})
WEAK = frozenset({"WeakKeyDictionary", "WeakSet", "WeakValueDictionary"})
MAPPINGS = WEAK | {"Counter", "OrderedDict", "defaultdict", "dict"}
#: Calls that ask the object that they are given first for what it is, or
#: give it attributes.
ASKING = frozenset(
    [
        "__delattr__",
        "__setattr__",
        "deepcopy",
        "delattr",
        "finalize",
        "getrefcount",
        "get_referrers",
        "hash",
        "id",
        "proxy",
        "ref",
        "setattr",
        "vars",
    ]
)
#: Calls that look for the object that they are given first.
FINDING = frozenset(
    [
        "__contains__",
        "__getitem__",
        "count",
        "discard",
        "get",
        "index",
        "move_to_end",
        "pop",
        "remove",
        "setdefault",
    ]
)
#: Calls that make keys, or members, of what is in what they are given.
COLLECTING = frozenset({"Counter", "frozenset", "fromkeys", "set"})
#: Attributes that ask the object for what it is, or give it other memory,
#: which what was made of it before does not have.
ASKING_ATTRIBUTES = frozenset(
    ["__delattr__", "__dict__", "__hash__", "__setattr__", "resize_", "set_"]
)
IN_PLACE = frozenset(
    ["__iadd__", "__imul__", "__isub__", "__itruediv__", "__setitem__"]
)
#: Calls whose result has nothing of a tensor any more.
PLAIN_CALLS = frozenset(
    [
        "all",
        "any",
        "bool",
        "float",
        "format",
        "hash",
        "id",
        "int",
        "isinstance",
        "len",
        "print",
        "repr",
        "str",
        "type",
        "range",
    ]
)
PLAIN_METHODS = frozenset(
    [
        "clear",
        "count",
        "detach",
        "dim",
        "index",
        "item",
        "keys",
        "nelement",
        "numel",
        "numpy",
        "remove",
        "size",
        "tolist",
    ]
) | (ANY - {"setdefault"})
#: Methods that modules, tensors, arrays, containers or texts have as well: who
#: is asked says whose they are.
SHARED = frozenset(
    [
        *(name for kind in (dict, list, set, str) for name in dir(kind)),
        *("abs", "add", "argmax", "clone", "cpu", "cuda", "detach", "dot"),
        *("exp", "flatten", "float", "forward", "item", "log", "max", "mean"),
        *("median", "min", "mm", "mul", "norm", "parameters", "pow", "prod"),
        *("reshape", "square", "squeeze", "state_dict", "std", "step", "sub"),
        *("sum", "take", "to", "tolist", "topk", "var", "view"),
    ]
)
#: What takes a graph, and what asks for one.
BACKWARDS = frozenset({"backward", "grad", "manual_backward"})
