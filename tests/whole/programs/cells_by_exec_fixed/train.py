"""Runs the cells of a file one after another in one namespace."""

import ast
import sys
from pathlib import Path

HERE = Path(__file__).parent


def cells_of(file):
    """Each cell's code, with the numbers of its lines in the file."""
    source = file.read_text()
    tree = ast.parse(source)
    starts = [
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.startswith("# %%")
    ]
    for begin, end in zip(starts, [*starts[1:], len(source)]):
        body = [node for node in tree.body if begin < node.lineno < end]
        yield compile(ast.Module(body, []), str(file), "exec")


def run(file):
    namespace = {"__name__": "__main__"}
    for number, code in enumerate(cells_of(file), 1):
        try:
            exec(code, namespace)
        except NameError as error:
            print(f"cell {number}: {error}")
    return namespace


def main():
    namespace = run(HERE / "cells.py")
    print("kept", sorted(n for n in namespace if n.startswith("final")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
