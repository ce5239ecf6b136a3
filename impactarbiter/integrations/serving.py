"""Servers: a middleware for FastAPI and any other ASGI application.

::

    from impactarbiter.integrations.serving import LeakDetectionMiddleware

    app.add_middleware(LeakDetectionMiddleware)

A request is a step.  The watch begins with the server, or with the first
request, and ends with the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .session import SessionHolder, check_options, harmless, open_session

__all__ = ["LeakDetectionMiddleware"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class LeakDetectionMiddleware(SessionHolder):
    """Ends a step when a request has been answered.

    ``report`` is a file for the report, ``watch`` are options of
    ``impactarbiter.watch``.  Where a watch is running already, such as that
    of ``impactarbiter run``, its own steps stay.

    Raises UsageError or ReportError for what cannot be.
    """

    def __init__(
        self, app: _App, *, report: str | None = None, **watch: Any
    ) -> None:
        check_options(watch.get("every"), report)
        self._app = app
        self._report = report
        self._watch = {"step": "manual", **watch}

    async def __call__(
        self, scope: _Message, receive: _Receive, send: _Send
    ) -> None:
        """An ASGI application."""
        self._begin()
        try:
            await self._app(scope, receive, send)
        finally:
            # After the answer: background tasks have run, too.
            if scope["type"] == "lifespan":
                self._end()
            else:
                self._step()

    @harmless
    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._session = open_session(**self._watch)
            if self._session is not None:
                job = self._session.arbiter.job
                if job is not None:
                    job.serves()

    @harmless
    def _step(self) -> None:
        if self._session is not None and self._session.arbiter.manual:
            self._session.arbiter.step()

    @harmless
    def _end(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.close(self._report)
