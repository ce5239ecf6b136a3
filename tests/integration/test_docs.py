"""What README and docs/ show is run as it stands there.

A block of Python that is followed by ``<!-- run -->`` must run, one that is
followed by ``<!-- run; prints: TEXT -->`` must print that, too.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm

import impactarbiter
from impactarbiter.model.words import SEVERITIES, VERDICTS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<mark><!-- run.*?-->)?",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"<!-- run(?:; prints: (?P<text>.*?))? -->")


@dataclass(frozen=True)
class Example:
    name: str
    code: str
    prints: str


def examples() -> list[Example]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block["mark"] is None:
                continue
            mark = MARK.fullmatch(block["mark"])
            assert mark is not None, (page.name, block["mark"])
            line = text[: block.start()].count("\n") + 1
            name = f"{page.name}:{line}"
            found.append(Example(name, block["code"], mark["text"] or ""))
    return found


@pytest.mark.parametrize("example", examples(), ids=lambda one: one.name)
def test_example_runs(example: Example, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(example.code, encoding="utf-8")
    done = warm.run([str(script)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert example.prints in done.stdout, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_python_is_python(page: Path) -> None:
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        # A block may await, or stand for the inside of a function.
        body = "".join(f"    {line}\n" for line in block["code"].splitlines())
        compile(f"async def page():\n    pass\n{body}", page.name, "exec")


def test_files_that_readme_links_to_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert len(links) > 30
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: impactarbiter\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(impactarbiter.__all__)


def test_reading_a_report_names_all_words() -> None:
    text = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    for word in (*VERDICTS, *SEVERITIES):
        assert f"`{word}`" in text


def test_every_extra_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    extras = set(project["optional-dependencies"]) - {"dev"}
    assert {name for name in extras if f"`{name}`" not in text} == set()
