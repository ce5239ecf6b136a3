"""TRL's SFTTrainer on an unmodified script, offline."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import warm

from impactarbiter.model.report import Report

SCRIPT = Path(__file__).parents[2] / "examples/integrations/sft_trainer.py"


# Its import takes seconds, and is the program's.
@pytest.mark.skipif(find_spec("trl") is None, reason="no trl")
def test_sft_trainer(tmp_path: Path) -> None:
    # TRL reads YAML by --config, and lets the command line override it.
    config = tmp_path / "config.yaml"
    config.write_text("memory_leak_report: leaks.json\nlogging_steps: 4\n")
    words = "--output_dir out --config config.yaml --detect_memory_leaks"
    run = ["-m", "impactarbiter", "run"]
    done = warm.run([*run, str(SCRIPT), *words.split()], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "leak: main().trainer.replay keeps" in done.stderr
    assert "'memory/findings': 1" in done.stdout
    (finding,) = Report.load(tmp_path / "leaks.json").findings
    assert finding.verdict == "leak"
    assert finding.site.source == "self.replay.append(embedded)"
