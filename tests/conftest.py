"""Settings, hooks and fixtures for all tests."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from spark_bridge import SparkMissingError
from spark_bridge.session import check_installed
from tests.support.left_open import LEFT_OPEN
from tests.support.ray_variables import TOKENS

LIVE = ("ray", "spark", "compat", "hosts")
"""Folders whose tests share a running cluster: each runs in one process, in order.

The other tests run file by file, in whichever process has time.
"""
_FIRST = (*LIVE, "programs", "browser", "sim", "component")
"""The folders in the order in which they are begun. The longest come first: with the many short files of tests/unit at
the end, all processes finish together."""
_HEAVY = ("ray", "spark", "hosts", "programs", "browser")
_HEAVY_AT_ONCE = 2
"""The folders whose tests start Rays, JVMs and browsers, and the number of processes that are in them at the same time,
as long as there are other tests. Ray's node ends itself when its helpers take longer than 15 s to start."""

SPARK_TESTS = Path(__file__).parent / "spark"

ASYNC_TEST_SECONDS = 200.0
"""An async test that takes longer is cancelled, and cleans up, before pytest's own limit cuts it off."""

# A shell that runs the tests in the background has them ignore Ctrl-C, which every program they start would inherit:
# and some tests are about Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine fails no property; CI tries the same examples each time, people's machines ever new ones.
settings.register_profile("coterie", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("few", settings.get_profile("coterie"), derandomize=True, max_examples=10)
settings.load_profile("coterie")

# A call that needs a Ray fails where there is none, instead of starting one that nobody ends.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
# All that a test starts here gives its Ray a token, and has it ask for one.
os.environ.update(TOKENS)


def pytest_configure(config: pytest.Config) -> None:
    # Collecting the tests makes hardly any garbage, and ever more objects that a search for it would visit.
    gc.disable()
    # A cluster on a slow machine may give this warning; its processes are ended all the same.
    config.addinivalue_line("filterwarnings", "ignore:the cluster did not stop in order within:UserWarning")
    if beside := getattr(config, "workerinput", None):
        roots = [config.invocation_params.dir / each for each in config.args]
        if all(root.is_dir() for root in roots):
            folders = [each for root in roots for each in _folders(root) if not _ignored(config, each)]
            number = int(beside["workerid"].removeprefix("gw"))
            config.args = [str(each) for each in begun_elsewhere(folders, number, beside["workercount"])]


def _folders(root: Path) -> Iterator[Path]:
    """The uppermost folders with tests."""
    if any(root.glob("test_*.py")):
        yield root
    else:
        for each in sorted(root.iterdir()):
            if each.is_dir():
                yield from _folders(each)


def _ignored(config: pytest.Config, folder: Path) -> bool:
    """True if pytest is to skip this folder. Pytest itself does not ask that of the folders it is given."""
    return bool(config.hook.pytest_ignore_collect(collection_path=folder, config=config))


def begun_elsewhere(folders: list[Path], number: int, count: int) -> list[Path]:
    """The folders in the order in which one of `count` processes reads them.

    On a fresh clone, the first to read a file rewrites its assertions, which takes longer than all else before the
    first test, and keeps the outcome for the others. In the same order all would read each file at the same time, and
    each would rewrite it. So each begins at its own share of the files.
    """
    files = [sum(1 for _ in folder.rglob("test_*.py")) for folder in folders]
    before = list(itertools.accumulate(files, initial=0))
    first = next((n for n, each in enumerate(before) if each * count >= number * before[-1]), 0)
    return [*folders[first:], *folders[:first]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Thousands of tests stay until the end. A garbage collection over them and all modules takes longer than most
    tests: so it leaves them out, and runs less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 50)
    gc.enable()


def why_no_spark() -> str | None:
    """The thing that the tests of Spark on Ray lack here; None if they can run."""
    try:
        check_installed()
    except SparkMissingError as missing:
        return str(missing)
    return None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path == SPARK_TESTS and why_no_spark() else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if why := why_no_spark():
        terminalreporter.write_line(f"tests/spark is left out: {why}")


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """A test leaves no file open and the niceness as it was: thousands of tests share one process."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    LEFT_OPEN.close()
    assert os.getpriority(os.PRIO_PROCESS, 0) == niceness, "the tests after it would have its priority"


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Each async test has a loop of its own, like that of every process of ours."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = limited(item.obj)


def limited(
    test: Callable[..., Awaitable[None]], seconds: float = ASYNC_TEST_SECONDS
) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def ended_in_time(**arguments: Any) -> None:
        async with asyncio.timeout(seconds):
            await test(**arguments)

    return ended_in_time


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-case", action="store_true", help="of a test with several cases run the first alone")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("first_case", False):  # absent where this is imported (test_two_processes.py)
        kept = first_cases(items)
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, str]:
    """A test's place among the others. It is the same in all processes, in whatever order they read files."""
    folder = _folder(item.nodeid)
    return _FIRST.index(folder) if folder in _FIRST else len(_FIRST), item.nodeid.partition("::")[0]


def first_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Each test once, of several cases the first."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    return list(first.values())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFolder:
    return ByFolder(config, log)


class ByFolder(LoadScopeScheduling):
    """Files, and the folders in LIVE, one after the other to whichever process has time."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._numbers: dict[str, int] = {}  # of the tests, which are the same in all processes

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process its next tests. With less than two it waits for more, possibly for ever: one that replaces a
        dead process may be given a single test, or a file whose tests have all run."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)  # when nothing is left, it is told to end

    def _assign_work_unit(self, node: WorkerController) -> None:
        """As the base class does; but that gives the first scope, and searches all tests for each test's number."""
        scope = self._next(node)
        unit = self.workqueue.pop(scope)
        self.assigned_work.setdefault(node, {})[scope] = unit
        if not self._numbers:
            self._numbers = {test: number for number, test in enumerate(self.registered_collections[node])}
        node.send_runtest_some([self._numbers[test] for test, done in unit.items() if not done])

    def _next(self, node: WorkerController) -> str:
        """The first scope, or the first one that is not heavy while enough other processes are in heavy ones."""
        heavy = sum(any(map(_heavy, scopes)) for other, scopes in self.assigned_work.items() if other is not node)
        light = (scope for scope in self.workqueue if not _heavy(scope))
        first = next(iter(self.workqueue))
        return next(light, first) if heavy >= _HEAVY_AT_ONCE else first

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a scope that a process has finished: after each test the base class counts all work of the process."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        return folder if folder in LIVE else nodeid.split("::")[0]


def _folder(nodeid: str) -> str:
    """The folder of tests/ that a test is in."""
    return nodeid.split("/")[1]


def _heavy(scope: str) -> bool:
    """True if the tests of a scope start Rays, JVMs or browsers. A scope is a file, or a folder in LIVE."""
    return (_folder(scope) if "/" in scope else scope) in _HEAVY
