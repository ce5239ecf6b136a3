"""The screen of ``impactarbiter top`` (textual)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from ..base.errors import ImpactArbiterError
from ..base.text import clean
from ..reports.live_text import picture
from ..reports.live_view import JOB_COLUMNS
from .top_sources import Source, of_file

#: Seconds between two looks at what is followed.
PAUSE = 0.5


class Screen(App[None]):
    """One process; of a job the table of its processes above it."""

    CSS: ClassVar[str] = """
    #answer { padding: 0 1; text-style: bold; }
    #processes { height: auto; max-height: 40%; }
    #picture { padding: 0 1; }
    """
    BINDINGS = [("q", "quit", "leave")]
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False

    def __init__(
        self, what: str, source: Source, pause: float = PAUSE
    ) -> None:
        super().__init__()
        self._pause = pause
        self.title = f"impactarbiter top {what}"
        self._source = source
        self._files: list[str] = []

    def compose(self) -> ComposeResult:
        """What stands on it."""
        answer: Static = Static(id="answer")
        answer.display = False
        yield answer
        table: DataTable[Text] = DataTable(id="processes", cursor_type="row")
        table.display = False
        yield table
        with VerticalScroll():
            yield Static("waiting for the first picture", id="picture")
        yield Footer()

    def on_mount(self) -> None:
        """Begins to follow."""
        self.query_one(DataTable).add_columns(*JOB_COLUMNS)
        self.look()
        self.set_interval(self._pause, self.look)

    def look(self) -> None:
        """Draws what there is now."""
        try:
            view = self._source()
            if view is not None and "job" in view:
                self._draw_job(view["job"])
                view = self._chosen()
        except ImpactArbiterError as error:
            self._say(str(error))
            return
        if view is not None:
            self.query_one("#picture", Static).update(picture(view))

    def _say(self, text: str) -> None:
        answer = self.query_one("#answer", Static)
        answer.display = True
        answer.update(Text(clean(text)))

    def _draw_job(self, job: dict[str, Any]) -> None:
        self._say(job["answer"])
        table = self.query_one(DataTable)
        chosen = table.cursor_row
        table.display = True
        table.clear()
        for row in job["rows"]:
            table.add_row(*map(Text, row))
        self._files = job["files"]
        table.move_cursor(row=min(chosen, len(self._files) - 1))

    def on_data_table_row_highlighted(self) -> None:
        """Another process was chosen."""
        with suppress(ImpactArbiterError):
            view = self._chosen()
            if view is not None:
                self.query_one("#picture", Static).update(picture(view))

    def _chosen(self) -> dict[str, Any] | None:
        row = self.query_one(DataTable).cursor_row
        return of_file(self._files[row]) if row < len(self._files) else None
