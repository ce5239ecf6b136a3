"""``run --dashboard``: a page of a run, which never changes the run."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import re
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

import impactarbiter
from impactarbiter.base.errors import UsageError
from impactarbiter.commands.options import Option, parse
from impactarbiter.integrations import dashboard
from impactarbiter.integrations.dashboard import (
    MOST_CONNECTIONS,
    MOST_READERS,
    Dashboard,
)
from impactarbiter.model.finding import Finding, Holder, Site
from impactarbiter.model.history import History, LineCurve
from impactarbiter.model.moment import Moment
from impactarbiter.model.process import Process
from impactarbiter.model.report import Report
from impactarbiter.reports.live_view import (
    MOST_POINTS,
    MOST_ROWS,
    MOST_TEXT,
    live_view,
)

#: Seconds after which a test that waits has failed.
LIMIT = 60


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Not at the collection: what that imports, all walks go through."""
    pytest.importorskip("aiohttp")


class Served:
    """A watched loop, and its page."""

    def __init__(self, **watch: Any) -> None:
        self.arbiter = impactarbiter.watch(step="manual", **watch)
        self.page = Dashboard(self.arbiter)
        self.page.start()
        self.zebra: list[torch.Tensor] = []
        asked = urllib.parse.urlsplit(self.page.address)
        self.query = asked.query

    def step(self, count: int = 40) -> None:
        for _ in range(count):
            self.zebra.append(torch.ones(256))
            self.arbiter.step()

    def ask(
        self,
        path: str,
        query: str | None = None,
        method: str = "GET",
        **headers: str,
    ) -> http.client.HTTPResponse:
        """An answer, its connection closed with it."""
        client = http.client.HTTPConnection(
            "127.0.0.1", self.page.port, timeout=LIMIT
        )
        query = self.query if query is None else query
        client.putrequest(method, f"{path}?{query}", skip_host=True)
        given = {"Host": f"127.0.0.1:{self.page.port}", **headers}
        for name, value in given.items():
            client.putheader(name, value)
        client.endheaders()
        return client.getresponse()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    try:
        yield made
    finally:
        made.page.end(made.arbiter.stop())


def connected(served: Served) -> socket.socket:
    """A connection that has sent nothing."""
    return socket.create_connection(("127.0.0.1", served.page.port), LIMIT)


def pictures(
    answer: http.client.HTTPResponse,
) -> Iterator[dict[str, Any]]:
    while line := answer.readline():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_the_page_needs_its_token_its_name_and_its_origin(
    served: Served,
) -> None:
    here = f"http://127.0.0.1:{served.page.port}"
    with served.ask("/", Origin=here) as answer:
        assert answer.status == 200
        text = answer.read().decode()
        policy = answer.headers["Content-Security-Policy"]
    nonce = re.findall(r"nonce-([\w-]+)", policy)
    assert len(set(nonce)) == 1 and f'<script nonce="{nonce[0]}">' in text
    assert policy.startswith("default-src 'none';") and "{{" not in text
    wrong = served.query[:-1] + ("a" if served.query[-1] != "a" else "b")
    for path in ("/", "/events", "/nothing"):
        for refused in (
            served.ask(path, ""),
            served.ask(path, "token="),
            served.ask(path, wrong),
            served.ask(path, "token=%ff%00"),
            served.ask(path, Origin="http://evil.example"),
            served.ask(path, Origin="null"),
            served.ask(path, Host="evil.example"),
            served.ask(path, Host=f"evil.example:{served.page.port}"),
        ):
            with refused:
                assert refused.status == 403, path
                assert refused.read() == b"forbidden\n"
    with served.ask("/nothing") as answer:
        assert answer.status == 404
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        with served.ask("/", method=method) as answer:
            assert answer.status == 405


def test_findings_come_while_the_run_goes_on(served: Served) -> None:
    with served.ask("/events") as answer:
        following = pictures(answer)
        first = next(following)
        assert first["findings"] == [] and not first["over"]
        for picture in following:
            if picture["findings"]:
                break
            served.step()
        (finding,) = picture["findings"]
        assert finding["verdict"] == "leak"
        assert "zebra" in finding["path"]
        assert picture["lines"][0]["source"].startswith("self.zebra.append(")
        assert "zebra" in picture["holders"][0]["expression"]
        steps = picture["timeline"]["steps"]
        assert steps == sorted(steps)
        assert len(picture["timeline"]["live"]) == len(steps)
        served.page.end(served.arbiter.stop())
        last = list(following)[-1]
        assert last["over"] and "1 leak" in last["summary"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.page.port), LIMIT)


def test_who_does_not_read_stops_nobody(served: Served) -> None:
    """Large pictures for a reader that reads nothing: another one has the
    last of them, and what is kept for the first stays bounded."""
    loop, page = served.page._loop, served.page
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with closing(stalled), served.ask("/events") as answer:
        following = pictures(answer)
        next(following)
        stalled.connect(("127.0.0.1", page.port))
        stalled.sendall(
            f"GET /events?{served.query} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{page.port}\r\n\r\n".encode()
        )
        ready = threading.Event()

        def wait_for_both() -> None:
            if len(page._readers) == 2:
                ready.set()
            else:
                loop.call_later(0.01, wait_for_both)

        loop.call_soon_threadsafe(wait_for_both)
        assert ready.wait(LIMIT)
        size, count = 1 << 20, 64
        for number in range(count):
            made = json.dumps({"number": number, "x": "x" * size})
            picture = f"data: {made}\n\n".encode()
            loop.call_soon_threadsafe(page._hand_out, picture)
            served.step(1)
        numbers = []
        for told in following:
            numbers.append(told.get("number", -1))
            if numbers[-1] == count - 1:
                break
            # A picture of the page's own may have taken the place of the last.
            loop.call_soon_threadsafe(page._hand_out, picture)
        assert all(queue.qsize() <= 1 for queue in page._readers)
    assert served.arbiter.moment().steps == count


def test_readers_are_counted(served: Served) -> None:
    answers = [served.ask("/events") for _ in range(MOST_READERS)]
    for answer in answers:
        assert next(pictures(answer))
    with served.ask("/events") as refused:
        assert refused.status == 503
    for answer in answers:
        answer.close()


def test_connections_are_counted(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a descriptor of the program's."""
    monkeypatch.setattr(dashboard, "UNASKED", 10.0 * LIMIT)
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(closing(connected(served)))
        with closing(connected(served)) as refused:
            assert refused.recv(1) == b""


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: ",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",  # answered, and kept open
    ],
    ids=["nothing", "half", "whole"],
)
def test_a_connection_that_asks_for_nothing_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(dashboard, "UNASKED", 0.2)
    with closing(connected(served)) as idle:
        idle.sendall(begun)
        with contextlib.suppress(ConnectionResetError):
            while idle.recv(4096):
                pass
    with served.ask("/events") as reader:
        following = pictures(reader)
        for _ in range(3):  # in more than twice PAUSE
            assert next(following)


def test_a_program_without_a_descriptor_left(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    accept = served.page._loop.sock_accept

    async def full(_: socket.socket) -> Any:
        monkeypatch.setattr(served.page._loop, "sock_accept", accept)
        failed.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(served.page._loop, "sock_accept", full)
    for _ in range(2):  # the first one was awaited before
        with served.ask("/") as answer:
            assert answer.status == 200
        assert failed.wait(LIMIT)


def test_its_thread_is_none_of_the_program_s() -> None:
    """Where gevent replaces that module's locks, its end would raise."""
    before = threading.enumerate()
    made = Served()
    try:
        with made.ask("/") as answer:
            assert answer.status == 200
        assert threading.enumerate() == before
    finally:
        made.page.end(made.arbiter.stop())


def test_a_child_does_not_listen(served: Served) -> None:
    number = served.page._socket.fileno()
    child = os.fork()
    if child == 0:
        try:
            os.fstat(number)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with served.ask("/") as answer:
        assert answer.status == 200


def test_a_port_that_is_taken(served: Served) -> None:
    with pytest.raises(UsageError, match="already in use"):
        Dashboard(served.arbiter, served.page.port)


def test_masked() -> None:
    made = Served(obfuscate=True)
    try:
        with made.ask("/events") as answer:
            following = pictures(answer)
            for picture in following:
                if picture["findings"]:
                    break
                made.step()
            text = json.dumps(picture)
            assert "zebra" not in text and "test_dashboard" not in text
    finally:
        made.page.end(made.arbiter.stop())


def test_the_processes_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPACTARBITER_JOB", str(tmp_path))
    other = Process(rank=1, world_size=2, pid=7, ended="SIGKILL")
    Report(steps=9, process=other).to_json(tmp_path / other.file_name)
    made = Served()
    try:
        with made.ask("/events") as answer:
            for picture in pictures(answer):
                if len(picture["job"]["rows"]) == 2:
                    break
                made.step(1)
        ours, theirs = picture["job"]["rows"]
        assert ours[2:4] == [str(os.getpid()), "running"]
        assert theirs[:5] == ["1", "train", "7", "SIGKILL", "9"]
        assert "rank 0" in picture["job"]["answer"]
        assert str(tmp_path) not in json.dumps(picture)
    finally:
        made.page.end(made.arbiter.stop())


def test_pictures_are_bounded() -> None:
    site = Site("/home/me/a.py", 3, "f", "x" * 10_000)
    found = Finding(
        verdict="leak",
        allocated_at=site,
        advice="y" * 10_000,
        holder=Holder("z" * 10_000, "list"),
    )
    many = range(10_000)
    history = History(
        steps=tuple(many),
        live_bytes=tuple(many),
        lines=(LineCurve(site, tuple(many)),) * 100,
    )
    view = live_view(
        Report(findings=(found,) * 1000, history=history),
        Moment(20_000, "optimizer", 1, 2, 3),
        False,
    )
    assert len(view["findings"]) == MOST_ROWS == len(view["holders"])
    assert view["findings_left_out"] == 1000 - MOST_ROWS
    assert len(view["lines"]) == MOST_ROWS
    assert len(view["timeline"]["steps"]) <= MOST_POINTS + 1
    assert len(json.dumps(view)) < 100 * MOST_TEXT


PROGRAM = """
import asyncio, logging, signal, sys, threading
import torch

assert not logging.root.handlers and "uvicorn" not in sys.modules
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
try:
    asyncio.get_running_loop()
except RuntimeError:
    pass
assert asyncio.run(asyncio.sleep(0, 7)) == 7
print("ran", *sys.argv[1:])
"""


def test_the_launcher_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = warm.run(
        ["-m", "impactarbiter", "run", "--dashboard", "program.py", "80"],
        cwd=tmp_path,
        safe_path=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran 80\n"
    assert re.search(
        r"^impactarbiter: dashboard: http://127\.0\.0\.1:\d+/\?token=[\w-]{32}$",
        done.stderr,
        re.M,
    )


def test_where_its_address_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    code = (
        "import os, sys\n"
        "from impactarbiter.commands import main\n"
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)\n"
        "sys.exit(main(['run', '--dashboard', 'program.py']))"
    )
    done = warm.run(["-c", code], cwd=tmp_path, safe_path=False)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_its_number_may_be_left_out() -> None:
    table = {"--dashboard": Option(int, optional=str.isdecimal)}
    for words, given, left in (
        (["--dashboard", "a.py"], None, ["a.py"]),
        (["--dashboard", "80", "a.py"], 80, ["a.py"]),
        (["--dashboard=80", "a.py"], 80, ["a.py"]),
        (["--dashboard"], None, []),
    ):
        assert parse("run", table, words) == ({"--dashboard": given}, left)
