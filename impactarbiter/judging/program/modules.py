"""What some files define, and what each of them calls what others have."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

from .source_file import Imported, Source, imported_by
from .unparsed import made_of


class Modules:
    """Some files of the user's, as what they are to each other."""

    def __init__(self, files: Sequence[Source]) -> None:
        self._files = files

    @cached_property
    def classes(self) -> set[str]:
        """Those that the files define."""
        nodes = (node for source in self._files for node in source.nodes)
        return {node.name for node in nodes if isinstance(node, ast.ClassDef)}

    @cached_property
    def names(self) -> set[str]:
        """What the files are called where they are imported."""
        paths = [Path(source.file) for source in self._files]
        named = [p.parent if p.stem == "__init__" else p for p in paths]
        return {path.stem for path in named}

    @cached_property
    def owners(self) -> set[str]:
        """By what a file knows what these give: the modules, their classes,
        and what objects of those are called."""
        return self.classes | self.names | self.objects_of(self.classes)

    def objects_of(self, classes: Collection[str]) -> set[str]:
        """What objects of these classes are called."""
        return set(map(str.lower, classes)).union(
            *(made_of(source.file, classes) for source in self._files)
        )

    def first_name(self, source: Source, name: str) -> str:
        """What a file's name was called where it was imported from."""
        return self._renamed.get((source.file, name), name)

    def has(self, source: Source, node: ast.Attribute) -> bool:
        """Whether it is read of one of the files, as a module."""
        root = owner = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        scope, name = source.variable(root)
        if scope != "module" or name in source.binds.get(scope, ()):
            return False
        modules = self._standing_for.get((source.file, name))
        if modules is None:
            return False
        if isinstance(owner, ast.Attribute):
            return owner.attr in self.names
        return not self.names.isdisjoint(modules)

    def renamed_by(self, node: ast.ImportFrom) -> list[Imported]:
        """What a statement imports of one of the files by another name."""
        module = (node.module or "").rpartition(".")[2]
        of = imported_by(node) if module in self.names else []
        return [one for one in of if one.here != one.name]

    @cached_property
    def _renamed(self) -> dict[tuple[str, str], str]:
        """(file, name there) -> the name that what was imported had."""
        return {
            (source.file, one.here): one.name
            for source in self._files
            for one in source.imports
            if one.name and one.here != one.name
        }

    @cached_property
    def _standing_for(self) -> dict[tuple[str, str], set[str]]:
        """(file, name there) -> last names of the modules that it may be."""
        modules: dict[tuple[str, str], set[str]] = {}
        for source in self._files:
            for one in source.imports:
                last = (one.name or one.of).rpartition(".")[2]
                modules.setdefault((source.file, one.here), set()).add(last)
        return modules
