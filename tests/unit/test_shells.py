"""What shells keep: the last error's traceback, and IPython's results."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from impactarbiter import explain
from impactarbiter.base.shell import cell_name
from impactarbiter.knowledge.ipython import shell_advice
from impactarbiter.model.finding import Site
from impactarbiter.model.path import Edge, Path, name_in


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPython that has run one cell."""
    names = {"/tmp/ipykernel_1/2.py": ("Cell", "In[3]")}
    compiler = SimpleNamespace(format_code_name=names.get)
    made = SimpleNamespace(compile=compiler)
    module = SimpleNamespace(get_ipython=lambda: made)
    monkeypatch.setitem(sys.modules, "IPython", module)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["last_value", "last_traceback"])
def test_the_last_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def fail() -> None:
        local = torch.ones(10)
        kept.append(local.data_ptr())
        raise ValueError(local.shape)

    kept: list[int] = []
    try:
        fail()
    except ValueError as error:
        value = error if name == "last_value" else error.__traceback__
        monkeypatch.setattr(sys, name, value, raising=False)
        trace = error.__traceback__
        assert trace is not None and trace.tb_next is not None
        tensor = trace.tb_next.tb_frame.f_locals["local"]
        del error, value, trace
    found = explain(tensor, paths=4)
    first = next(path for path in found.paths if path.root == "sys")
    assert first.edges[0].name == name
    assert "the next error takes its place" in str(shell_advice(first))


def path_of(root: str, *texts: str) -> Path:
    edges = (Edge("edge", name_in(text), "object", text) for text in texts)
    return Path(root, tuple(edges))


TRAITS = (".get_ipython", ".__self__", "._trait_values")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (path_of("__main__", ".Out", "[12]"), "`%xdel _12` drops this one"),
        (
            path_of("__main__", ".Out", "[12]", "[0]", ".grad_fn"),
            "`%xdel _12` drops this one",
        ),
        (path_of("__main__", "._oh"), "`%reset -f out`"),
        (path_of("__main__", "._"), "`%reset -f out`"),
        (path_of("__main__", "._7", "[0]"), "`%reset -f out`"),
        (path_of("__main__", ".get_ipython", ".displayhook", ".__"), "%reset"),
        (
            path_of("__main__", ".get_ipython", ".user_ns_hidden", "['_7']"),
            "%reset",
        ),
        (
            path_of(
                "__main__",
                *TRAITS,
                "['last_execution_result']",
                ".result",
                "[0]",
            ),
            "%reset",
        ),
        (
            path_of("__main__", ".shell", ".InteractiveTB", ".tb", ".tb_next"),
            "1/0",
        ),
        (
            path_of(
                "__main__",
                *TRAITS,
                "['last_execution_result']",
                ".error_in_exec",
            ),
            "1/0",
        ),
        (path_of("sys", ".last_exc", ".__traceback__"), "1/0"),
        (path_of("__main__", ".Output", "[12]"), None),
        (path_of("__main__", "._cache", "[1]"), None),
        (path_of("__main__", "._7x"), None),
        (path_of("__main__", ".names", "['Out']", "[12]"), None),
        (path_of("train", ".Out", "[12]"), None),
        (path_of("sys", ".last_resort"), None),
    ],
    ids=str,
)
def test_what_is_a_shell_s(shell: None, path: Path, said: str | None) -> None:
    advice = shell_advice(path)
    assert advice is None if said is None else said in str(advice)


def test_a_script_may_have_an_out() -> None:
    assert shell_advice(path_of("__main__", ".Out", "[12]")) is None
    assert cell_name("/tmp/ipykernel_1/2.py") is None


def test_a_cell_goes_by_its_number(shell: None) -> None:
    assert str(Site("/tmp/ipykernel_1/2.py", 5, "f")) == "In[3]:5 in f"
    assert str(Site("/tmp/else.py", 5, "f")) == "/tmp/else.py:5 in f"


def test_the_program_s_second_name_is_no_second_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setitem(sys.modules, "__mp_main__", main)
    monkeypatch.setattr(main, "kept", torch.ones(3), raising=False)
    found = explain(main.kept, paths=4)  # type: ignore[attr-defined]
    roots = [path.root for path in found.paths]
    assert roots.count("__main__") == 1
    assert "__mp_main__" not in roots
