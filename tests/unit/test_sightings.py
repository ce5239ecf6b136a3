"""Statements that were seen, and whether they make a value anew."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from impactarbiter.judging.holders.sightings import Sightings
from impactarbiter.judging.program.statement import remakes

CASES = {
    "kernels[key] = np.concatenate([kernels[key], more])": True,
    "kernels[key] = kernels.pop(key) * 2": True,
    "kept = kernels[key]\n    kernels[key] = kept + more": True,
    "kernels[key] = kernels.pop(key)": False,
    "kernels[key] = kernels[key]": False,
    "kept = kernels[key]\n    kernels[key] = kept": False,
    "kernels[key] = np.ones(size)": False,
}


@pytest.mark.parametrize("statement", CASES)
def test_what_is_put_back_is_not_made(statement: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"def turn(kernels, key):\n    {statement}\n")
    line = 2 + statement.count("\n")
    finding = SimpleNamespace(
        holder=SimpleNamespace(expression="run().kernels[3]", type="ndarray"),
        stack=(SimpleNamespace(file=str(script), function="turn"),),
        allocated_at=SimpleNamespace(file=str(script), line=1),
    )
    seen = SimpleNamespace(file=str(script), line=line)
    assert remakes(finding, seen) is CASES[statement]  # type: ignore[arg-type]


def test_a_watch_that_ends_with_its_holder_leaves_what_was_known() -> None:
    sightings = Sightings()
    seen = {("tensor", 1, True, 4): 8}
    sightings.end((), seen, 20)
    sightings.end((), None, 60)
    assert (sightings.census, sightings.age) == (seen, 60)
