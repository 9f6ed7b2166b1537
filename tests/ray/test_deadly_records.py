"""Records that end the process which handles them: they are set aside, or named, and all others are handled."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import Cluster
from actors.members.pool import ConsumerPool, PoolError
from tests.ray.handlers import Deadly, handled
from tests.ray.support import committed, consumer, produce, read_all, topic

GOOD = [b"v%03d" % number for number in range(100)]


@pytest.fixture
def servers(shared: Cluster) -> str:
    return shared.bootstrap_servers


def among_the_good(*deadly: bytes) -> list[bytes]:
    """The good values, and deadly ones in their midst."""
    step = len(GOOD) // (len(deadly) + 1)
    values = list(GOOD)
    for number, value in reversed(list(enumerate(deadly, 1))):
        values.insert(number * step, value)
    return values


@pytest.mark.parametrize(
    ("ways", "settings"),
    [([b"segfault", b"exit"], {}), ([b"kill"], {"concurrency": 4})],
    ids=["one by one", "side by side"],
)
def test_records_that_end_their_process_were_begun_again_for_ever(
    servers: str, name: str, tmp_path: Path, ways: list[bytes], settings: dict[str, Any]
) -> None:
    """None behind them was handled, and those before them ten times in twenty seconds."""
    topic(servers, name, 1)
    dead = topic(servers, f"{name}-dead", 1)
    produce(servers, name, among_the_good(*ways))
    settings |= {"handler_args": (str(tmp_path),), "dead_letter_topic": dead}
    with ConsumerPool(name, name, Deadly, 1, bootstrap_servers=servers, **settings) as pool:

        def done() -> bool:
            # Of several threads one may end the process while a commit is under way, which then counts twice.
            all_seen = "concurrency" not in settings or set(handled(tmp_path)) == set(GOOD)
            return all_seen and pool.handled() >= len(GOOD) + len(ways)

        assert pool.wait(done, 150), (pool.status(), pool.logs())
        assert set(handled(tmp_path)) == set(GOOD), "it was done when records that came again had been counted twice"
        assert pool.status()[0].dead_letters == len(ways)
        assert pool.status()[0].restarts == 3 * len(ways)
    assert read_all(servers, dead, len(ways)) == set(ways)
    assert max(Counter(handled(tmp_path)).values()) <= 3
    with contextlib.closing(consumer(servers, name)) as reader:
        assert committed(reader, name, 1) == [len(GOOD) + len(ways)]


def test_without_a_dead_letter_topic_the_pool_names_the_record_and_the_death(
    servers: str, name: str, tmp_path: Path
) -> None:
    topic(servers, name, 1)
    produce(servers, name, [b"good", b"segfault", b"after"])
    with ConsumerPool(name, name, Deadly, 1, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool:
        with pytest.raises(PoolError, match=rf"{name}-0 offset 1: .*segmentation fault"):
            pool.wait(timeout_s=150)
        assert pool.status()[0].restarts == 3
    assert set(handled(tmp_path)) == {b"good"}
    with contextlib.closing(consumer(servers, name)) as reader:
        assert committed(reader, name, 1) == [1], "it is the first to come again"
