"""For mkdocs: pages may link to files of the repository outside of docs/.

Such a link, ``../examples/chatbot.py``, works where the repository is browsed;
for the site the file is copied beside the pages, and the link follows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(\.\./([\w./-]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds what pages link to."""
    for page in files.documentation_pages():
        for name in LINK.findall(page.content_string):
            if (ROOT / name).is_file() and name not in files.src_uris:
                # A page of its own would be rendered: .md stays as it is.
                files.append(
                    File.generated(config, name, abs_src_path=str(ROOT / name))
                )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A file that is not there stays a wrong link: the build says so."""
    return LINK.sub(r"](\1)", markdown)
