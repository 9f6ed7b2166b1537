"""The `kafka` fixture: a running broker of the kind a test asks for, shared by the tests of this folder."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from tests.compat import named_peers
from tests.compat.peers import Peer, UnavailableError
from tests.compat.remote import Remote, start_remote
from tests.compat.secure import SecurePeer, secure_peer
from tests.compat.support import PATIENT

HERE = Path(__file__).parent
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--peer", help="run only the tests against this kind of broker: coterie, kfake, kafka")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))  # other people's clients
    wanted = config.getoption("--peer", None) or os.environ.get("COTERIE_TEST_PEER")
    if not wanted:
        return
    chosen, left_out = [], []
    for item in items:
        callspec = getattr(item, "callspec", None)
        kind = callspec.params.get("kafka", wanted) if callspec else wanted
        (chosen if kind == wanted else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


@pytest.fixture(autouse=True)
def _no_client_goes_on() -> Iterator[None]:
    """Each test closes its clients of kafka-python: a thread left behind draws random numbers, and Hypothesis then
    takes later tests for flaky."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-io-")]
    assert left == [], "a client of kafka-python was not closed"


T = TypeVar("T")


class Running(Generic[T]):
    """The results of `start` by name, each started at its first use; a name that is unavailable keeps the reason."""

    def __init__(
        self, factory: pytest.TempPathFactory, start: Callable[[str, Path], contextlib.AbstractContextManager[T]]
    ) -> None:
        self._factory = factory
        self._start = start
        self._stack = contextlib.ExitStack()
        self._made: dict[str, T | UnavailableError] = {}

    def get(self, name: str) -> T:
        if name not in self._made:
            try:
                self._made[name] = self._stack.enter_context(self._start(name, self._factory.mktemp(name)))
            except UnavailableError as reason:
                self._made[name] = reason
        made = self._made[name]
        if isinstance(made, UnavailableError):
            pytest.skip(f"{name} cannot run here: {made}")
        return made

    def close(self) -> None:
        self._stack.close()


def _peer(kind: str, folder: Path) -> contextlib.AbstractContextManager[Peer]:
    config = {**PATIENT, "coterie.log.format": "json"} if kind == "coterie" else None
    return named_peers.start(kind, folder, config)


@pytest.fixture(scope="package")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running[Peer]]:
    with contextlib.closing(Running(tmp_path_factory, _peer)) as running:
        yield running


@pytest.fixture(scope="package")
def _secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running[SecurePeer]]:
    with contextlib.closing(Running(tmp_path_factory, secure_peer)) as running:
        yield running


@pytest.fixture
def secure(request: pytest.FixtureRequest, _secured: Running[SecurePeer]) -> SecurePeer:
    """A cluster whose clients log in; Coterie's where a test does not name a kind."""
    return _secured.get(getattr(request, "param", "coterie"))


@pytest.fixture(scope="package")
def remotes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running[Remote]]:
    """The programs of other languages that tests drive: "java" and "go"."""
    with contextlib.closing(Running(tmp_path_factory, start_remote)) as running:
        yield running


@pytest.fixture
def java(remotes: Running[Remote]) -> Remote:
    return remotes.get("java")


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _running: Running[Peer]) -> Peer:
    """A broker of the kind given by `@against(...)`; Coterie where a test does not say.

    Coterie is `coterie up` on Ray, and for tests that are marked `one_process` the plugin's cluster.
    """
    kind = getattr(request, "param", "coterie")
    if kind == "coterie" and request.node.get_closest_marker("one_process"):
        cluster = request.getfixturevalue("coterie_cluster")
        return Peer("coterie", cluster.bootstrap_servers, cluster.pid)
    return _running.get(kind)


@pytest.fixture
def name() -> str:
    """A topic or group name nobody else of this run uses."""
    return f"t{next(_numbers)}-{id(object()):x}"
