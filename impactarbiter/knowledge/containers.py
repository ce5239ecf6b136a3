"""Containers: what fills them, and what is no more than one."""

from __future__ import annotations

_HOOKS = frozenset(
    {
        "register_backward_hook",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_hook",
    }
)
_LIST = frozenset({"append", "extend", "insert"})
_DICT = frozenset({"setdefault", "update"}) | _HOOKS

#: Methods of a queue: what adds to it, and what takes out of it.  A ``get`` of
#: a dict or a context variable takes nothing.
PUTTING = frozenset({"put", "put_nowait"})
TAKING = frozenset({"get", "get_nowait"})

#: Type -> methods that add to it.
GROWING = {
    "list": _LIST,
    "deque": _LIST | PUTTING | {"appendleft", "extendleft"},
    "set": frozenset({"add", "update"}),
    "dict": _DICT,
    "OrderedDict": _DICT,
    "defaultdict": _DICT | _LIST,
}
#: Methods that add to a container of another type.
ANY = PUTTING.union({"add", "push"}, *GROWING.values())
#: Methods whose last argument, or what is in it, is added.
ADDING = ANY - _HOOKS
#: Methods that take something out of a container, or of what has some: a
#: metric's lists are reset.
REMOVING = frozenset(
    {"clear", "discard", "pop", "popitem", "popleft", "remove", "reset"}
)
#: What a cache of ``functools.lru_cache`` is called.
MEMO = "functools.lru_cache"
#: Types that ``x[key] = value`` adds to.
MAPPINGS = frozenset({"dict", "OrderedDict", "defaultdict"})
#: Types that nothing is added to: another one takes their place.
VALUES = frozenset({"Tensor", "Parameter", "ndarray"})
#: Types between a holder and a tensor that say nothing of whose they are.
PLAIN = frozenset({*GROWING, "tuple", "frozenset", "Tensor", "ndarray"})
