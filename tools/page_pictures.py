"""Makes the pictures in docs/pictures: a leak of graph nodes, and its fix.

    python tools/page_pictures.py [FOLDER]

Runs one small training loop twice, and three leaks of the lab, opens their
pages in Chromium, and keeps the top of each; and what `impactarbiter report`
shows in a terminal.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from look_at_pages import Chromium, find_chromium, open_page, shoot

PROGRAM = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters())
running_loss = 0.0
for step in range(400):
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running_loss += loss{fix}
"""
COMMAND = [sys.executable, "-m", "impactarbiter"]
#: Name -> what makes the program so, width, scheme.
PICTURES = {
    "leak": ("", 800, "light"),
    "fixed": (".item()", 800, "light"),
    "narrow-dark": ("", 360, "dark"),
}
#: The lab's leaks that docs/first-leak.md goes through.
LAB = {
    "hook": "forward_hook_activations.py",
    "sum": "device_tensor_retention.py",
    "validation": "validation_outputs_without_no_grad.py",
}
LAB_FOLDER = Path(__file__).parents[1] / "examples" / "leaks_lab"
#: Pixels of the page's top that are kept.
HEIGHT = 850
#: Columns of the terminal; room for the longest of the source's lines.
COLUMNS = 100
#: Around what was printed; only fonts that are there.
TERMINAL = """\
<!DOCTYPE html><meta charset="utf-8"><style>{stylesheet}
body {{ margin: 0; padding: 14px 18px; background: {background};
color: {foreground}; width: max-content; }}
pre {{ margin: 0; font: 13px/1.4 "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>
"""


def page_of(fix: str, folder: Path) -> Path:
    """The page of one run."""
    program, page = folder / "train.py", folder / "train.html"
    program.write_text(PROGRAM.replace("{fix}", fix))
    run(["--json", "run.json", "--html", page, program], folder)
    return page


def page_of_lab(script: str, folder: Path) -> Path:
    """The page of one of the lab's leaks."""
    page = folder / "lab.html"
    run(["--html", page, script, "--variant", "leaky"], LAB_FOLDER)
    return page


def run(arguments: list[str | Path], folder: Path) -> None:
    """Watches a program in a folder."""
    subprocess.run([*COMMAND, "run", *arguments], cwd=folder, check=True)


def printed(command: list[str], folder: Path) -> str:
    """What a command writes to a terminal, colours and all."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": "60", "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=folder, stdout=theirs, env=os.environ | size
    ):
        os.close(theirs)
        pieces = []
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:  # Linux's way to say that the other end is closed.
            pass
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def terminal_page(folder: Path) -> Path:
    """The report of the folder's run.json in a terminal, as a page."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    shown = printed([*COMMAND, "report", "run.json"], folder)
    console = Console(
        record=True,
        width=COLUMNS,
        file=open(os.devnull, "w"),  # noqa: SIM115
    )
    console.print(Text("$ impactarbiter report run.json\n"))
    console.print(Text.from_ansi(shown), soft_wrap=True)
    page = folder / "terminal.html"
    page.write_text(console.export_html(theme=MONOKAI, code_format=TERMINAL))
    return page


def main() -> int:
    chromium = find_chromium()
    if chromium is None:
        print("no chromium: install one", file=sys.stderr)
        return 2
    default = Path(__file__).parents[1] / "docs" / "pictures"
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        browser = Chromium(chromium, name + "/browser")
        try:
            for picture, (fix, width, scheme) in PICTURES.items():
                open_page(browser, page_of(fix, folder), width, scheme)
                shoot(browser, pictures / f"page-{picture}.png", HEIGHT)
                if picture == "leak":
                    open_page(browser, terminal_page(folder), 860, "dark")
                    height = browser.ask(
                        "Runtime.evaluate",
                        expression="document.body.offsetHeight",
                    )["result"]["value"]
                    shoot(browser, pictures / "terminal.png", height)
            for picture, script in LAB.items():
                open_page(browser, page_of_lab(script, folder), 800, "light")
                shoot(browser, pictures / f"lab-{picture}.png", HEIGHT)
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
