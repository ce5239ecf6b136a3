"""Makes the pictures in docs/pictures: a leak of graph nodes, and its fix.

    python tools/page_pictures.py [FOLDER]

Runs one small training loop twice, opens both pages in Chromium, and keeps
the top of each.
"""

from __future__ import annotations

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
#: Name -> what makes the program so, width, scheme.
PICTURES = {
    "leak": ("", 800, "light"),
    "fixed": (".item()", 800, "light"),
    "narrow-dark": ("", 360, "dark"),
}
#: Pixels of the page's top that are kept.
HEIGHT = 760


def page_of(fix: str, folder: Path) -> Path:
    """The page of one run."""
    program, page = folder / "train.py", folder / "train.html"
    program.write_text(PROGRAM.replace("{fix}", fix))
    command = [sys.executable, "-P", "-m", "impactarbiter", "run", "--html"]
    subprocess.run([*command, page, program], cwd=folder, check=True)
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
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
