"""Opens pages in headless Chromium and says what is wrong with them.

    python tools/look_at_pages.py [--shots FOLDER] PAGE.html...

Each page is opened from disk at 360, 800 and 1,600 px, in light and dark, and
once for print.  Said are errors on the console, requests, what is wider than
the window, and text of too little contrast (WCAG AA); with --shots pictures
are kept.  Exit code 1 where anything is said, 2 without Chromium.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WIDTHS = (360, 800, 1600)
SCHEMES = ("light", "dark")
#: A picture that is higher than this is cut.
HIGHEST = 6000

#: Says what sticks out on the right, and what can hardly be read.
PROBE = """
(() => {
  const said = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width)
    said.push("the page is wider than its window: " +
      document.documentElement.scrollWidth + " of " + width);
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 :
    ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) +
    0.0722 * channel(c[2]);
  const numbers = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const seen = new Set();
  for (const e of document.querySelectorAll("body *")) {
    const own = Array.from(e.childNodes).some(
      (n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, script, style") || !e.offsetParent) continue;
    const a = light(numbers(getComputedStyle(e).color));
    const b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) seen.add(e.tagName + "." + e.className + " " +
      ratio.toFixed(2) + ": " + e.textContent.trim().slice(0, 30));
  }
  return said.concat(Array.from(seen, (t) => "low contrast " + t));
})()
"""


class Chromium:
    """A browser that is spoken to over a pipe."""

    def __init__(self, program: str, folder: str) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def connect() -> None:
            # 3 and 4 are where it looks; either may be one of ours.
            spare_in, spare_out = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        self._process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._reader = os.fdopen(ours_in, "rb", buffering=0)
        self._writer = os.fdopen(ours_out, "wb", buffering=0)
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")
        attached = self.ask(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    session: str | None = None

    def ask(self, method: str, **params: Any) -> Any:
        """One command's result; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {
            "id": self._number,
            "method": method,
            "params": params,
        }
        if self.session is not None:
            message["sessionId"] = self.session
        self._writer.write(json.dumps(message).encode() + b"\0")
        number = self._number
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method: str) -> None:
        """Until such an event has come."""
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._reader.read(1 << 16)
            if not piece:
                raise RuntimeError("chromium has ended")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()
        self._reader.close()
        self._writer.close()


def open_page(browser: Chromium, page: Path, width: int, scheme: str) -> None:
    """Opens it anew."""
    browser.events.clear()
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.ask(
        "Emulation.setEmulatedMedia",
        media="",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    browser.ask("Page.navigate", url=page.resolve().as_uri())
    browser.wait("Page.loadEventFired")


def complaints(browser: Chromium) -> list[str]:
    """What the opened page does wrong."""
    result = browser.ask(
        "Runtime.evaluate", expression=PROBE, returnByValue=True
    )
    said: list[str] = list(result["result"]["value"])
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            said.append(f"exception: {params['exceptionDetails']['text']}")
        elif method == "Log.entryAdded":
            said.append(f"console: {params['entry']['text']}")
        elif method == "Runtime.consoleAPICalled":
            said.append(f"console: {params['type']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if params.get("type") != "Document":
                said.append(f"request: {url[:80]}")
    return said


def shoot(browser: Chromium, file: Path, highest: int = HIGHEST) -> None:
    """A picture of the page, or of its top."""
    size = browser.ask("Page.getLayoutMetrics")["cssContentSize"]
    picture = browser.ask(
        "Page.captureScreenshot",
        captureBeyondViewport=True,
        clip={
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(size["height"], highest),
            "scale": 1,
        },
    )
    file.write_bytes(base64.b64decode(picture["data"]))


def look(
    program: str, pages: list[Path], shots: Path | None = None
) -> list[str]:
    """All that is wrong with these pages."""
    said: list[str] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Chromium(program, folder)
        try:
            for page in pages:
                for scheme in SCHEMES:
                    for width in WIDTHS:
                        name = f"{page.stem}-{width}-{scheme}"
                        open_page(browser, page, width, scheme)
                        said += [f"{name}: {t}" for t in complaints(browser)]
                        if shots is not None:
                            shoot(browser, shots / f"{name}.png")
        finally:
            browser.close()
    return said


def find_chromium() -> str | None:
    """The program, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((p for p in map(shutil.which, names) if p), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("pages", nargs="+", type=Path)
    given = parser.parse_args()
    program = find_chromium()
    if program is None:
        print("no chromium: install one", file=sys.stderr)
        return 2
    if given.shots is not None:
        given.shots.mkdir(parents=True, exist_ok=True)
    said = look(program, given.pages, given.shots)
    print("\n".join(said) or f"{len(given.pages)} pages: nothing to say")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
