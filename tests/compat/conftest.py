"""The `kafka` fixture: a running broker of the kind a test asks for, shared by the tests of this folder."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat import peers as peer_module
from tests.compat.peers import Peer, UnavailableError
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


class _Running:
    """Peers by kind, each started at its first use; one that cannot be had stays a reason."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._peers: dict[str, Peer | UnavailableError] = {}

    def get(self, kind: str) -> Peer:
        if kind not in self._peers:
            try:
                config = {**PATIENT, "coterie.log.format": "json"} if kind == "coterie" else None
                self._peers[kind] = self._stack.enter_context(peer_module.start(kind, self._folder(kind), config))
            except UnavailableError as reason:
                self._peers[kind] = reason
        peer = self._peers[kind]
        if isinstance(peer, UnavailableError):
            pytest.skip(f"{kind} cannot run here: {peer}")
        return peer

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="package")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Running]:
    running = _Running(tmp_path_factory.mktemp)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _running: _Running) -> Peer:
    """A broker of the kind given by `@against(...)`; Coterie where a test does not say."""
    return _running.get(getattr(request, "param", "coterie"))


@pytest.fixture
def name() -> str:
    """A topic or group name nobody else of this run uses."""
    return f"t{next(_numbers)}-{id(object()):x}"
