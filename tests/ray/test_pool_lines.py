"""Lines that members print, on real Ray: read by the pool, still in Ray's own logs, and kept of a member that died."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray

from actors.cluster import Cluster
from actors.members.logs.journal import MemberLine, advanced
from actors.members.pool import ConsumerPool
from tests.ray.handlers import Talker
from tests.ray.support import produce, topic, wait_until


@pytest.fixture
def servers(shared: Cluster) -> str:
    return shared.bootstrap_servers


@pytest.fixture
def pool(servers: str, name: str, tmp_path: Path) -> Iterator[ConsumerPool]:
    topic(servers, name, 1)
    produce(servers, name, [b"a", b"b"])
    with ConsumerPool(name, name, Talker, 1, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool:
        assert pool.wait(lambda: pool.handled() == 2, 150), pool.status()
        yield pool


def texts(lines: list[MemberLine], pid: int) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in lines if line.pid == pid]


def awaited(pool: ConsumerPool, condition: Callable[[list[MemberLine]], bool]) -> list[MemberLine]:
    found: list[MemberLine] = []

    def there() -> bool:
        found[:] = pool.logs()
        return condition(found)

    wait_until(there, what="lines")
    return found


def test_what_a_handler_prints_and_logs_is_there_and_in_rays_worker_logs(pool: ConsumerPool) -> None:
    (member,) = pool.status()
    assert texts(pool.logs(), member.pid) == [
        ("stdout", "printed a"),
        ("stderr", "complained a"),
        ("WARNING", "talker: logged a"),
        ("stdout", "printed b"),
        ("stderr", "complained b"),
        ("WARNING", "talker: logged b"),
    ]
    logs = Path(ray._private.worker.global_worker.node.get_logs_dir_path())
    (out,), (err,) = (list(logs.glob(f"worker-*-{member.pid}.{kind}")) for kind in ("out", "err"))
    assert "printed a\nprinted b\n" in out.read_text()
    assert "complained a\n" in err.read_text()
    assert "talker: logged b" in err.read_text()


def test_behind_a_cursor_is_only_what_is_new(pool: ConsumerPool, servers: str, name: str) -> None:
    cursor = advanced({}, pool.logs())
    assert pool.logs(after=cursor) == []
    produce(servers, name, [b"c"])
    assert pool.wait(lambda: pool.handled() == 3, 150)
    assert [line.text for line in pool.logs(after=cursor)] == ["printed c", "complained c", "talker: logged c"]
    assert [line.text for line in pool.logs(tail=1)] == ["talker: logged c"]
    assert pool.logs(slot=1) == []


def test_of_a_killed_member_there_is_what_was_asked_for_before(pool: ConsumerPool, servers: str, name: str) -> None:
    (victim,) = pool.status()
    assert len(texts(pool.logs(), victim.pid)) == 6
    os.kill(victim.pid, signal.SIGKILL)
    died = ("POOL", f"the member with pid {victim.pid} has died")
    found = awaited(pool, lambda lines: died in texts(lines, 0))
    assert len(texts(found, victim.pid)) == 6


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_member_that_ends_in_good_order_leaves_its_last_words(pool: ConsumerPool, asked_before: bool) -> None:
    (victim,) = pool.status()
    if asked_before:
        pool.logs(tail=1)
    os.kill(victim.pid, signal.SIGTERM)
    found = awaited(pool, lambda lines: ("stdout", "last words") in texts(lines, victim.pid))
    assert len(texts(found, victim.pid)) == 7


def test_a_stopped_pool_still_knows_them(pool: ConsumerPool) -> None:
    pool.stop()
    assert pool.logs(tail=1)[0].text == "last words"
