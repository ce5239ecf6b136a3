"""A page of the run that goes on, served from its process on 127.0.0.1.

aiohttp does the serving: unlike uvicorn it leaves signals and the program's
loggers alone where it is told to, which a watched server may use itself.  The
loop is ours, on a thread of ours that gets no signals.  Every reader has room
for one picture: who reads slowly gets fewer, and the run never waits.  The
descriptors are the program's: connections are few, and none of them idles.

What is asked without the token, from another origin or under another name is
answered 403; nothing that is asked changes the run.
"""

from __future__ import annotations

import _thread
import asyncio
import hmac
import json
import logging
import os
import secrets
import signal
import socket
import time
from contextlib import suppress
from importlib.resources import files
from os import getpid
from typing import TYPE_CHECKING, Any

from ..base.errors import MissingExtraError, ReportError, UsageError
from ..model.report import Report
from ..reports.job import files_of
from ..reports.live_view import job_view, live_view

if TYPE_CHECKING:
    from aiohttp import web

    from ..watching.arbiter import Arbiter

_HOST = "127.0.0.1"
#: Seconds between two pictures, at least; and so many times what one costs:
#: no more than a hundredth of a processor.
PAUSE = 1.0
COST = 100
#: Seconds that a reader may take for one picture before it is given up.
STALLED = 30.0
#: Readers at a time.
MOST_READERS = 16
#: Connections at a time; each is a descriptor less for the program, which has
#: 1,024 as a rule.  Twice the readers: a browser opens some ahead of need.
MOST_CONNECTIONS = 2 * MOST_READERS
#: Seconds that a connection has until it is a reader's, or over.
UNASKED = 5.0
#: Seconds that the end of a run waits for readers to get the last picture.
LAST = 0.25
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}';"
    " connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


class Dashboard:
    """Serves from ``start()`` until ``end()``; raises MissingExtraError
    without aiohttp, UsageError where the port is taken."""

    def __init__(self, arbiter: Arbiter, port: int = 0) -> None:
        try:
            import aiohttp.web  # noqa: F401
        except ImportError:
            raise MissingExtraError(
                "aiohttp", "--dashboard", "dashboard"
            ) from None
        self._arbiter = arbiter
        self._pid = getpid()
        self._token = secrets.token_urlsafe(24)
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.SelectorEventLoop()
        # What goes wrong with a reader is nothing for the program's log.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._readers: set[asyncio.Queue[bytes]] = set()
        self._unasked: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._wanted = asyncio.Event()
        self._ended = asyncio.Event()
        self._last = b""
        self._over = False
        # No threading.Thread and no lock of that module's: where gevent has
        # put its own in their place meanwhile, ours would end in a traceback.
        self._serving = _thread.allocate_lock()

    @property
    def address(self) -> str:
        """What to open; whoever has it may read."""
        return f"http://{_HOST}:{self.port}/?token={self._token}"

    def start(self) -> None:
        """Begins to serve, beside the program."""
        os.register_at_fork(after_in_child=self._close_in_child)
        self._serving.acquire()
        try:
            _thread.start_new_thread(self._serve, ())
        except BaseException:
            self._serving.release()
            raise

    def end(self, report: Report | None) -> None:
        """The last picture, then silence; a second call does nothing."""
        if self._over or getpid() != self._pid:
            return
        self._over = True
        last = b"" if report is None else self._picture(report, True)
        with suppress(RuntimeError):  # it is over already
            self._loop.call_soon_threadsafe(self._stop, last)
        if self._serving.acquire(timeout=2 * LAST):
            self._serving.release()

    def _close_in_child(self) -> None:
        """A child that listened too would leave browsers without answer."""
        with suppress(OSError):
            os.close(self._socket.detach())

    # -- on our thread --------------------------------------------------------

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        asyncio.set_event_loop(self._loop)
        try:
            with suppress(Exception):
                self._loop.run_until_complete(self._run())
            with suppress(Exception):
                self._loop.close()
        finally:
            self._serving.release()

    async def _run(self) -> None:
        from aiohttp import web

        app = web.Application(middlewares=[self._guard()])
        app.router.add_get("/", self._page, allow_head=False)
        app.router.add_get("/events", self._events, allow_head=False)
        silent = logging.Logger("impactarbiter.dashboard", logging.CRITICAL)
        silent.addHandler(logging.NullHandler())
        runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            logger=silent,
            shutdown_timeout=LAST,
        )
        await runner.setup()
        assert runner.server is not None
        accepting = asyncio.ensure_future(self._accept(runner.server))
        drawing = asyncio.ensure_future(self._draw())
        await self._ended.wait()
        drawing.cancel()
        accepting.cancel()
        await asyncio.wait([accepting])
        self._socket.close()
        await runner.cleanup()

    async def _accept(self, server: web.Server) -> None:
        """Connections one by one, as asyncio takes 100 at once."""
        while True:
            try:
                made, _ = await self._loop.sock_accept(self._socket)
            except OSError:  # the program has no descriptor left
                await asyncio.sleep(PAUSE)
                continue
            await asyncio.sleep(0)  # who is served already comes before
            there = server.connections
            for gone in self._unasked.keys() - set(there):
                self._unasked.pop(gone).cancel()
            if len(there) >= MOST_CONNECTIONS:
                made.close()
                continue
            with suppress(OSError):  # gone already
                transport, handler = await self._loop.connect_accepted_socket(
                    server, made
                )
                self._unasked[handler] = self._loop.call_later(
                    UNASKED, transport.abort
                )

    def _stop(self, last: bytes) -> None:
        self._ended.set()
        self._hand_out(last)

    async def _draw(self) -> None:
        """A picture at a time, and none while nobody reads."""
        while True:
            await self._wanted.wait()
            began = time.thread_time()
            with suppress(Exception):
                self._hand_out(self._picture(self._arbiter.glance(), False))
            took = time.thread_time() - began
            await asyncio.sleep(max(PAUSE, COST * took))
            if not self._readers:
                self._wanted.clear()

    def _picture(self, report: Report, over: bool) -> bytes:
        view = live_view(report, self._arbiter.moment(), over)
        if self._arbiter.job is not None:
            view["job"] = self._of_job(self._arbiter.job.folder)
        return b"data: " + json.dumps(view).encode() + b"\n\n"

    def _of_job(self, folder: str) -> dict[str, Any] | None:
        """What each process of the job does; None where nobody knows."""
        try:
            job = job_view(files_of(folder))
        except ReportError:
            return None
        del job["files"]  # paths are masked where names are
        return job

    def _hand_out(self, picture: bytes) -> None:
        """To every reader, in place of one that it has not read yet."""
        self._last = picture
        for queue in self._readers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(picture)

    # -- what is asked --------------------------------------------------------

    def _guard(self) -> Any:
        from aiohttp import web

        @web.middleware
        async def guard(request: web.Request, handler: Any) -> Any:
            if not self._may(request):
                return web.Response(
                    status=403, text="forbidden\n", headers=_HEADERS
                )
            return await handler(request)

        return guard

    def _may(self, request: web.Request) -> bool:
        """The token, under our own name, and from no other origin."""
        given = request.query.get("token", "").encode("utf-8", "replace")
        names = {f"{_HOST}:{self.port}", f"localhost:{self.port}"}
        host, origin = request.host, request.headers.get("Origin")
        return (
            hmac.compare_digest(given, self._token.encode())
            and host in names
            and origin in (None, f"http://{host}")
        )

    async def _page(self, _request: web.Request) -> web.Response:
        from aiohttp import web

        nonce = secrets.token_urlsafe(12)
        page = files("impactarbiter.reports").joinpath("dashboard.html")
        text = page.read_text(encoding="utf-8").replace("{{nonce}}", nonce)
        policy = {"Content-Security-Policy": _POLICY.format(nonce)}
        return web.Response(
            text=text, content_type="text/html", headers=_HEADERS | policy
        )

    async def _events(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if len(self._readers) >= MOST_READERS:
            return web.Response(status=503, text="too many readers\n")
        response = web.StreamResponse(
            headers=_HEADERS | {"Content-Type": "text/event-stream"}
        )
        if request.protocol in self._unasked:
            self._unasked.pop(request.protocol).cancel()
        queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        queue.put_nowait(self._last)
        self._readers.add(queue)
        self._wanted.set()
        try:
            await response.prepare(request)
            while True:
                picture = await queue.get()
                if picture:
                    await asyncio.wait_for(response.write(picture), STALLED)
                if self._ended.is_set() and queue.empty():
                    return response
        except (OSError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._readers.discard(queue)
        return response


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((_HOST, port))
        made.listen()
    except OSError as error:
        made.close()
        reason = (error.strerror or str(error)).lower()
        given = f"port {port} of {_HOST}" if port else _HOST
        other = "; leave the number out for any that is free" if port else ""
        raise UsageError(
            f"--dashboard cannot listen on {given}: {reason}{other}"
        ) from None
    made.setblocking(False)
    return made
