"""pytest plugin: tests that fail when tensors outlive them.

A test that is checked runs once as usual.  When it has passed it runs again,
with its fixtures, ``warmup`` and then ``window`` times, watched, each run a
step: what survives every run from one more of them is a leak.  What only a
garbage cycle holds is collected before that is judged.

Nothing here imports torch; ``watch()`` does when the first test is checked.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import importlib.util
import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from ..base.errors import UsageError
from ..base.units import plural
from .pytest_random import generators_kept
from .pytest_settings import Settings, changed

if TYPE_CHECKING:
    from ..model.report import Report
    from ..watching.arbiter import Arbiter

MARKER = "no_tensor_leaks"
EXEMPT = "allow_tensor_leaks"


# -- settings ---------------------------------------------------------------

_OPTIONS = {
    "tensor_leaks_max_bytes": "bytes that each run may leave behind, such as"
    " 4KiB (default: 0)",
    "tensor_leaks_warmup": "runs that count for nothing (default: 1)",
    "tensor_leaks_window": "runs that tensors must survive to be a leak"
    " (default: 4)",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tensor-leaks", "tensor leaks (impactarbiter)")
    text = "check every test that uses torch for tensors that outlive it"
    group.addoption("--tensor-leaks", action="store_true", help=text)
    parser.addini("tensor_leaks", text, type="bool", default=False)
    for name, help_text in _OPTIONS.items():
        flag = "--" + name.replace("_", "-")
        group.addoption(flag, default=None, help=help_text)
        parser.addini(name, help_text, default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(max_bytes=0, warmup=1, window=4, allow=()): run the test"
        " several times and fail if tensors of each run stay alive",
    )
    config.addinivalue_line(
        "markers",
        f"{EXEMPT}(reason): do not check the test under --tensor-leaks",
    )
    try:
        config.stash[_DEFAULTS] = _defaults(config)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> str | None:
    if not _checks_all(config):
        return None
    known = config.stash[_DEFAULTS]
    return (
        f"tensor leaks: every test that uses torch, {known.runs} more runs of"
        f" each, at most {known.max_bytes} B a run"
    )


_DEFAULTS = pytest.StashKey[Settings]()


def _checks_all(config: pytest.Config) -> bool:
    return bool(
        config.getoption("tensor_leaks") or config.getini("tensor_leaks")
    )


def _defaults(config: pytest.Config) -> Settings:
    """From the command line, else the ini file."""
    given = {}
    for name in _OPTIONS:
        value = config.getoption(name) or config.getini(name)
        if value:
            given[name.removeprefix("tensor_leaks_")] = value
    return changed(Settings(), given, "tensor_leaks")


def _settings(item: pytest.Item) -> Settings:
    """The marker's, with the defaults of the session."""
    base = item.config.stash[_DEFAULTS]
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return base
    given = dict(zip(["max_bytes"], marker.args, strict=False))
    return changed(base, {**given, **marker.kwargs}, MARKER)


# -- the fixture ------------------------------------------------------------


class TensorLeaks:
    """What the fixture ``tensor_leaks`` gives: steps of the test's own."""

    def __init__(self, arbiter: Arbiter) -> None:
        self._arbiter = arbiter

    def step(self) -> None:
        """Ends a turn of the loop; tensors that stay must be accounted for."""
        self._arbiter.step()

    def report(self) -> Report:
        """What has been found so far."""
        return self._arbiter.report()


_HANDLE = pytest.StashKey[TensorLeaks]()


@pytest.fixture
def tensor_leaks(
    request: pytest.FixtureRequest,
) -> Iterator[TensorLeaks]:
    """Watches one test that counts its steps itself.

    The test calls ``tensor_leaks.step()`` in each turn of a loop and fails at
    its end if something leaks; ``tensor_leaks.report()`` is what was found.
    """
    _skip_without_frameworks()
    if _is_watched():
        pytest.skip(f"tensor leaks: {_WATCHED}")
    item = request.node
    with _watch(_settings(item)) as arbiter:
        item.stash[_HANDLE] = TensorLeaks(arbiter)
        yield item.stash[_HANDLE]
        del item.stash[_HANDLE]


# -- a test that counts its own steps ----------------------------------------


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if _HANDLE in item.stash:
        report = item.stash[_HANDLE].report()
        if report.steps < report.needed_steps:
            _warn(
                item,
                f"tensor_leaks.step() ended {plural(report.steps, 'step')},"
                f" {report.needed_steps} are needed to tell a leak",
            )
        failure = _failure(_settings(item), report)
        if failure is not None:
            pytest.fail(failure, pytrace=False)
    return result


# -- a test that is run again ------------------------------------------------

_REPEATING = pytest.StashKey[bool]()
#: Why a test cannot be checked.
_WATCHED = "impactarbiter is watching already"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is wrong with the marker, or in the way of it, is said here."""
    wrong = ""
    try:
        _settings(item)
    except UsageError as error:
        wrong = str(error)
    if wrong:
        pytest.fail(wrong, pytrace=False)
    if item.get_closest_marker(MARKER) and _REPEATING not in item.stash:
        _skip_without_frameworks()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> bool | None:
    """Runs a test that is to be checked; others are left to pytest.

    What is reported is the first run, which nothing of ours watches, but
    for the failures of later ones.
    """
    if not _is_repeated(item):
        return None
    where = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**where)
    reports, parts = _run(item)
    asked = item.get_closest_marker(MARKER) is not None
    passed = all(report.passed for report in [*reports, *parts])
    if passed and asked and _is_watched():
        _warn(item, f"not checked for tensor leaks: {_WATCHED}")
    elif passed and (asked or _is_possible()):
        _check(item, reports, asked)
    for report in reports[:-1]:
        item.ihook.pytest_runtest_logreport(report=report)
    last = _teardown(item, nextitem) or reports[-1]
    item.ihook.pytest_runtest_logreport(report=last)
    item.ihook.pytest_runtest_logfinish(**where)
    return True


def _is_repeated(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    if "tensor_leaks" in item.fixturenames:
        return False
    if item.get_closest_marker(MARKER):
        return True
    return _checks_all(item.config) and not item.get_closest_marker(EXEMPT)


def _is_possible() -> bool:
    """Whether a test that was not marked can be checked, and need be."""
    from ..core.frameworks import any_imported

    return any_imported() and not _is_watched()


def _is_watched() -> bool:
    from ..watching.arbiter import current

    return current() is not None


def _skip_without_frameworks() -> None:
    names = ("torch", "jax", "tensorflow")
    if not any(map(importlib.util.find_spec, names)):
        pytest.skip(
            "tensor leaks: none of torch, JAX and TensorFlow is installed"
        )


def _watch(settings: Settings) -> Arbiter:
    import impactarbiter

    return impactarbiter.watch(
        step="manual",
        warmup=settings.warmup,
        window=settings.window,
        allow=settings.allow,
    )


def _run(
    item: pytest.Item,
) -> tuple[list[pytest.TestReport], list[pytest.TestReport]]:
    """One whole run: reports of setup, call and teardown, and of subtests.

    Wider fixtures stay set up.
    """
    for name in ("_instance", "_obj"):  # of a class: a new one, as always
        vars(item).pop(name, None)
    item._report_sections.clear()
    with _reports_of_parts(item) as parts:
        # What pytest tears down depends on the next test: it is one like this.
        again = copy.copy(item)
        return runtestprotocol(item, log=False, nextitem=again), parts


class _Hooks:
    """The hooks of a test, which passes reports of subtests on by itself:
    those of the first run go on their way, those of later ones do not."""

    def __init__(
        self, hooks: Any, parts: list[pytest.TestReport], is_first: bool
    ) -> None:
        self._hooks = hooks
        self._parts = parts
        self._is_first = is_first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._parts.append(report)
        if self._is_first:
            self._hooks.pytest_runtest_logreport(report=report)


@contextlib.contextmanager
def _reports_of_parts(item: pytest.Item) -> Iterator[list[pytest.TestReport]]:
    session, parts = item.session, list[pytest.TestReport]()
    is_first = _REPEATING not in item.stash
    of_path = session.gethookproxy

    def gethookproxy(path: os.PathLike[str]) -> _Hooks:
        return _Hooks(of_path(path), parts, is_first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "gethookproxy", gethookproxy)
        yield parts


def _teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> pytest.TestReport | None:
    """Tears down what the next test does not need; a report if that fails."""
    if item.session.shouldfail or item.session.shouldstop:
        nextitem = None
    capture = item.config.pluginmanager.getplugin("capturemanager")

    def teardown() -> None:
        with (
            capture.item_capture("teardown", item)
            if capture
            else contextlib.nullcontext()
        ):
            item.session._setupstate.teardown_exact(nextitem)

    call = pytest.CallInfo.from_call(
        teardown,
        when="teardown",
        reraise=(pytest.exit.Exception, KeyboardInterrupt),
    )
    if call.excinfo is None:
        return None
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(
        item=item, call=call
    )
    return report


def _check(
    item: pytest.Item, reports: list[pytest.TestReport], asked: bool
) -> None:
    """Runs again, watched; changes ``reports`` where something is wrong."""
    settings = _settings(item)
    item.stash[_REPEATING] = True
    try:
        with generators_kept(), _watch(settings) as arbiter:
            for number in range(settings.runs):
                again, parts = _run(item)
                again[1:1] = [part for part in parts if part.failed]
                if not all(report.passed for report in again):
                    _cannot_repeat(item, reports, again, number + 2, asked)
                    return
                if number == settings.runs - 1:
                    gc.collect()
                arbiter.step()
    finally:
        del item.stash[_REPEATING]
    failure = _failure(settings, arbiter.report())
    if failure is not None:
        _fail(item, reports[1], failure)


def _cannot_repeat(
    item: pytest.Item,
    reports: list[pytest.TestReport],
    again: list[pytest.TestReport],
    number: int,
    asked: bool,
) -> None:
    """A later run failed: that counts where the test was marked for it."""
    if not asked:
        _forget_failed_parts(item)
        _warn(
            item,
            "was not checked for tensor leaks, as it cannot be run twice:"
            f" mark it {EXEMPT}",
        )
        return
    bad = next(report for report in again if not report.passed)
    bad.sections.append(
        ("tensor leaks", f"{MARKER} runs a test again: this is run {number}")
    )
    reports[:] = again


def _forget_failed_parts(item: pytest.Item) -> None:
    """pytest fails a test that has passed where a subtest of it has not."""
    with contextlib.suppress(ImportError, AttributeError, KeyError):
        from _pytest.subtests import failed_subtests_key

        known = item.config.stash[failed_subtests_key]
        node: Any = item  # before 9.1 they are known by the text
        known.pop(getattr(node, "id", node.nodeid), None)


def _fail(item: pytest.Item, report: pytest.TestReport, message: str) -> None:
    try:
        pytest.fail(message, pytrace=False)
    except pytest.fail.Exception as error:
        info = pytest.ExceptionInfo.from_exception(error)
        report.longrepr = item.repr_failure(info)
    report.outcome = "failed"


def _warn(item: pytest.Item, message: str) -> None:
    # Warnings may be errors; ours never fail a test.
    with contextlib.suppress(pytest.PytestWarning):
        item.warn(pytest.PytestWarning(f"{item.nodeid}: {message}"))


def _failure(settings: Settings, report: Report) -> str | None:
    """Why the test fails; what says so is not imported for other tests."""
    from .pytest_words import failure_of

    return failure_of(settings.max_bytes, report)
