"""Tests touch no private names of the product: a test needs a constructor's argument, or a name that is public.

`ALLOWED` has those that have to stay, with their reasons.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.private_names import PRODUCT, Product, Suite, Touch

ROOT = Path(__file__).parents[3]
MOST = 40
"""The most touches that may ever be allowed."""

ALLOWED: dict[tuple[str, str], str] = {
    ("tests/sim/bugs.py", "_matches"): "one of several conditions: the others hold",
    ("tests/sim/bugs.py", "_may_join"): "one of several conditions: the others hold",
    ("tests/sim/bugs.py", "_append_checked"): "the step after a batch was checked in a thread",
    ("tests/sim/bugs.py", "_append"): "the step after a batch was checked in a thread",
    ("tests/sim/disk_bugs.py", "_flush_at_once"): "the flush of one setting alone is left out; all others go on",
    ("tests/sim/bugs.py", "_sleeps"): "a shard's sleep with what it still owes, and all around it as it is",
    ("tests/sim/bugs.py", "_idle_s"): "the wait after a shard that is busy stays what it is",
    ("tests/sim/bugs.py", "_relaying"): "what is owed is answered as if it had been done",
    ("tests/sim/bugs.py", "_same_boot"): "the directory says that it is whole, and nothing else in it is wrong",
    ("tests/sim/consumer_bugs.py", "_check_epoch"): "one check among those of a heartbeat is left out",
    ("tests/sim/consumer_bugs.py", "_arm"): "a timer is set for another time, and all that arms it is right",
    ("tests/sim/guest_bugs.py", "_begin_if_committed"): "the wait for one commit is left out of the life of a seat",
    ("tests/sim/guest_bugs.py", "_refuse"): "the answers to refused writes are right, and the guest is not told",
    ("tests/sim/replacement_bugs.py", "_without_directory"): "one step of a replacement is left out",
    ("tests/sim/test_replication_simulation.py", "_matches"): "one of several conditions: the others hold",
    ("tests/sim/test_replication_simulation.py", "_may_join"): "one of several conditions: the others hold",
    ("tests/sim/test_replication_simulation.py", "_judge"): "the verdict on a proposal alone",
    ("tests/sim/voter_bugs.py", "_decide"): "the end of its log is all that a new leader does not decide",
    ("tests/sim/voter_bugs.py", "_applied"): "the end of its log begins there, also in the middle of a commit",
    ("tests/component/test_controller_shells.py", "_home"): "the name by which actors of earlier builds look for it",
    ("tests/support/shells_of_a_build.py", "_spec"): "an attribute of an actor that an earlier build has pickled",
    ("tests/support/shells_of_a_build.py", "_namespace"): "an attribute of an actor that an earlier build has pickled",
    ("tests/support/shells_of_a_build.py", "_begin"): "a method of an actor that an earlier build has pickled",
    ("tests/support/coordination_invariants.py", "_cluster"): "a shard tells nobody whether it has heard of topics",
}
"""Reasons, by file and name: mostly of bugs that are planted to prove that the simulations would find them."""


def sources(folders: tuple[str, ...]) -> dict[str, str]:
    """The text of all Python files in the folders, by their paths from the root."""
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(paths)}


@cache
def touches() -> dict[str, list[Touch]]:
    """All touches in each file of the tests that has any."""
    files = sources(("tests",))
    tests = Suite(Product(sources(PRODUCT).values()), files.values())
    found = {path: tests.touches(source) for path, source in files.items()}
    return {path: each for path, each in found.items() if each}


def test_no_test_touches_a_private_name_of_the_product() -> None:
    others = [
        f"{path}:{touch.line}: {touch.name}"
        for path, found in touches().items()
        for touch in found
        if (path, touch.name) not in ALLOWED
    ]
    assert others == []


def test_each_allowed_name_is_touched_and_has_a_reason() -> None:
    touched = {(path, touch.name) for path, found in touches().items() for touch in found}
    assert ALLOWED.keys() <= touched
    assert all(len(reason.split()) > 3 for reason in ALLOWED.values())


def test_few_are_allowed() -> None:
    allowed = [touch for path, found in touches().items() for touch in found if (path, touch.name) in ALLOWED]
    assert len(allowed) <= MOST


THE_PRODUCT = """
class Server:
    __slots__ = ("_door",)

    def __init__(self):
        self._port = 1

    def _tick(self):
        pass

class Node(Server):
    _most = 5

def _read():
    pass
"""


def names(source: str) -> list[str]:
    """The names that a test touches."""
    tests = Suite(Product([THE_PRODUCT]), [source])
    return [touch.name for touch in tests.touches(source)]


@pytest.mark.parametrize(
    "test",
    [
        "server._tick()",
        "world.servers[0]._tick = None",
        "def planted(self):\n    self._tick()",
        "from actors.server import _tick",
        "monkeypatch.setattr(server, '_tick', None)",
        "monkeypatch.setattr('actors.server.Server._tick', None)",
        "CHANGES = [(Server, '_tick', None)]",
        "class Slow(Node):\n    def _tick(self):\n        pass",
        "class Slow(Node):\n    def tick(self):\n        self._tick()",
        "class Slow(Node):\n    def tick(self):\n        super()._tick()",
        "class Slow(Server): ...\nclass Slower(Slow):\n    def tick(self):\n        self._tick()",
    ],
)
def test_a_private_name_is_found_however_it_is_touched(test: str) -> None:
    assert names(test) == ["_tick"]


@pytest.mark.parametrize("name", ["_door", "_port", "_tick", "_most", "_read"])
def test_whatever_the_product_defines_counts(name: str) -> None:
    assert names(f"x.{name}") == [name]


@pytest.mark.parametrize(
    "test",
    [
        "x._unknown",
        "x.__class__",
        "header._replace(count=1)",
        "import os\nos._read()",
        "import ray\nray.worker._port",
        "import ray\nmonkeypatch.setattr(ray, '_port', 1)",
        "monkeypatch.setattr('os._read', None)",
        "class Fake:\n    def _tick(self):\n        self._tick()",
        "class Fake(Queue):\n    def _tick(self):\n        super()._tick()",
        "class Fake:\n    def __init__(self, other):\n        self._port = other._port",
    ],
)
def test_other_names_are_free(test: str) -> None:
    assert names(test) == []
