"""Our options as fields of transformers' own TrainingArguments.

The class itself gains them, not a subclass: what a script saves with
``torch.save(training_args)`` is then loaded where we are not installed.
"""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

from . import flags
from .flags import DETECT, EVERY, REPORT


def _fields() -> list[tuple[str, Any, dataclasses.Field[Any]]]:
    """(name, type, field), with what the command line asked for as default.

    ``metadata`` is what HfArgumentParser makes its help of.
    """
    asked = flags.request
    table: tuple[tuple[str, Any, Any, str], ...] = (
        (
            DETECT,
            bool,
            bool(asked.detect),
            "Watch the training for tensors that are kept step after step,"
            " and say who holds them (ImpactArbiter).",
        ),
        (
            EVERY,
            int,
            asked.every or 1,
            "Check for memory leaks at each Nth step.",
        ),
        (
            REPORT,
            str | None,
            asked.report,
            "File for the memory leak report: .json, .html, .sarif or .png.",
        ),
    )
    return [
        (
            name,
            kind,
            dataclasses.field(default=default, metadata={"help": text}),
        )
        for name, kind, default, text in table
    ]


def extend_in(module: ModuleType) -> None:
    """``extend`` for the class of ``transformers.training_args``."""
    extend(module.TrainingArguments)


def extend(cls: type[Any]) -> None:
    """Adds the fields to a dataclass and to what was derived from it before.

    Classes derived later inherit them as any other field.  A class that has
    them already stays as it is.
    """
    fields = _fields()
    for each in [cls, *_derived(cls)]:
        _extend_one(each, fields)


def _derived(cls: type[Any]) -> list[type[Any]]:
    below = [d for child in cls.__subclasses__() for d in _derived(child)]
    return [*cls.__subclasses__(), *below]


def _extend_one(
    cls: type[Any], fields: list[tuple[str, Any, dataclasses.Field[Any]]]
) -> None:
    own = cls.__dict__.get("__dataclass_fields__")
    if own is None or DETECT in own:
        return
    # What dataclass itself would have made of the longer list.
    longer: Any = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        bases=(cls,),
        namespace={"__module__": cls.__module__},
    )
    cls.__dataclass_fields__ = longer.__dataclass_fields__
    for name, kind, _ in fields:
        setattr(cls, name, getattr(longer, name))
        cls.__annotations__[name] = kind
    for name in ("__init__", "__eq__", "__match_args__"):
        if _is_generated(cls, name):
            setattr(cls, name, longer.__dict__[name])


def _is_generated(cls: type[Any], name: str) -> bool:
    """Whether dataclass made it: a method of the class's own stays."""
    value = cls.__dict__.get(name)
    code = getattr(value, "__code__", None)
    return value is not None and (
        code is None or code.co_filename == "<string>"
    )
