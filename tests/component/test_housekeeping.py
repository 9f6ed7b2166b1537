"""A broker's background work on its logs, when one of them is in trouble."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker import housekeeping
from actors.broker.housekeeping import Housekeeper, Intervals, Job, compact_in_process
from actors.log.checkpoint import load_checkpoint
from actors.log.errors import StorageError
from tests.support.log_helpers import NOW_MS, FullDisk, append, open_log, values

OFTEN = Intervals(0.001, 0.001, 0.001)
NOBODY: Any = SimpleNamespace()  # replicas and shards that are not to be told of anything


def replicas(count: int) -> Any:
    """Metadata in which each partition has so many."""
    return SimpleNamespace(partition=lambda topic, index: SimpleNamespace(replicas=range(count)))


class Log:
    """Counts its checkpoints; the first of two cannot write one."""

    def __init__(self, name: str, *, broken: bool, trouble: Exception | None = None) -> None:
        self.trouble = trouble or RuntimeError()
        self.directory = SimpleNamespace(name=name)
        self.failure = None
        self.broken = broken
        self.config = SimpleNamespace(compacts=False)
        self.checkpoints = 0
        self.retained = 0
        self.flushing = SimpleNamespace(is_due=lambda now_ms: False)
        self.retention = SimpleNamespace(apply=self._retain)

    def is_saved(self, *, watermark: bool) -> bool:
        return False

    def write_checkpoint(self) -> None:
        self.checkpoints += 1
        if self.broken:
            raise StorageError("no space")

    def _retain(self, now_ms: int) -> list[Any]:
        self.retained += 1
        if self.broken:
            raise self.trouble
        return []


@pytest.mark.parametrize("trouble", [OSError(5, "Input/output error"), KeyError("a bug")])
async def test_a_log_in_trouble_keeps_no_other_from_its_upkeep(trouble):
    bad, good = Log("bad", broken=True, trouble=trouble), Log("good", broken=False)
    config = SimpleNamespace(integer=lambda _: 1, boolean=lambda _: False)
    logs = {("t", 0): bad, ("t", 1): good}
    context: Any = SimpleNamespace(
        config=config,
        loop=asyncio.get_running_loop(),
        data_dir=SimpleNamespace(logs=logs),
        now_ms=lambda: 0,
        metadata=replicas(2),
    )
    keeper = Housekeeper(context, NOBODY, NOBODY, NOBODY, compact_in_process, OFTEN)
    keeper.start()
    async with asyncio.timeout(60):
        while good.checkpoints < 2 or good.retained < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    keeper.stop()
    assert bad.checkpoints >= 2
    assert bad.retained >= 2


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
async def test_a_log_whose_fsync_failed_takes_appends_again_without_a_restart(tmp_path, topic):
    disk = FullDisk()
    log = open_log(tmp_path / f"{topic}-3", writer=disk)
    append(log, values(b"a"))
    disk.fsync_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError):
        log.flush()
    told: list[tuple[str, int]] = []
    told_of: list[tuple[str, int]] = []
    context: Any = SimpleNamespace(
        config=SimpleNamespace(integer=lambda _: 60_000, boolean=lambda _: False),
        loop=asyncio.get_running_loop(),
        data_dir=SimpleNamespace(logs={(topic, 3): log}),
        now_ms=lambda: 0,
        metadata=replicas(1),
    )
    coordinators: Any = SimpleNamespace(reload=lambda *partition: told.append(partition))
    beside: Any = SimpleNamespace(reload=lambda *key: told_of.append(key))
    replication: Any = SimpleNamespace(failed=lambda *key: None)
    keeper = Housekeeper(context, replication, coordinators, beside, compact_in_process, OFTEN)
    keeper.start()
    refusals = 0
    async with asyncio.timeout(60):
        while refusals < 3:
            await asyncio.sleep(0.002)
            with pytest.raises(StorageError):
                append(log, values(b"b"))
            refusals += 1
        disk.fsync_error = None
        while log.failure is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    keeper.stop()
    assert append(log, values(b"b")) == 1
    assert told == [(topic, 3)], "coordinators know whether it is theirs"
    assert told_of == [(topic, 3)]
    log.abandon()


@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_log_that_cannot_be_repaired_is_given_up_unless_another_has_its_place(tmp_path, made_anew):
    disk, given_up, logs = FullDisk(), [], {}
    log = logs["orders", 3] = open_log(tmp_path / "orders-3", writer=disk)
    append(log, values(b"a"))
    disk.fsync_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError):
        log.flush()
    clock = SimpleNamespace(ms=NOW_MS)
    context: Any = SimpleNamespace(
        loop=asyncio.get_running_loop(),
        data_dir=SimpleNamespace(logs=logs),
        now_ms=lambda: clock.ms,
    )
    replication: Any = SimpleNamespace(failed=lambda *key: given_up.append(key))
    keeper = Housekeeper(context, replication, NOBODY, NOBODY, compact_in_process, OFTEN)
    if made_anew:
        logs["orders", 3] = object()
    for _ in range(housekeeping.REPAIRS):
        assert given_up == []
        await keeper.repair("orders", 3, log)
        clock.ms += 60_000  # each repair that fails has the next one wait longer
    assert given_up == ([] if made_anew else [("orders", 3)])
    log.abandon()


def kept(tmp_path, **settings: int) -> tuple[Any, Any]:
    """A context whose clock the test moves, and a housekeeper whose jobs run all the time."""
    clock = SimpleNamespace(ms=NOW_MS)
    context = SimpleNamespace(
        config=SimpleNamespace(integer=lambda name: settings.get(name, 1), boolean=lambda _: False),
        loop=asyncio.get_running_loop(),
        data_dir=SimpleNamespace(logs={}),
        now_ms=lambda: clock.ms,
        clock=clock,
        metadata=replicas(1),
    )
    return context, Housekeeper(context, NOBODY, NOBODY, NOBODY, compact_in_process, OFTEN)


async def test_only_a_watermark_that_other_replicas_have_a_say_in_is_written_down_as_it_moves(tmp_path):
    context, keeper = kept(tmp_path, **{"log.flush.scheduler.interval.ms": 60_000})
    alone, shared = open_log(tmp_path / "alone-0"), open_log(tmp_path / "shared-0")
    context.data_dir.logs = {("alone", 0): alone, ("shared", 0): shared}
    context.metadata = SimpleNamespace(partition=lambda topic, _: replicas(1 + (topic == "shared")).partition(topic, 0))
    for each in (alone, shared):
        append(each, values(b"a"))
        each.advance_high_watermark(1)
    keeper.start()
    async with asyncio.timeout(60):
        while shared.checkpoint.high_watermark < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not (alone.directory / "log.checkpoint").exists()
    alone.retention.delete_before(1)
    assert load_checkpoint(alone.directory).log_start_offset == 1
    keeper.stop()
    alone.abandon(), shared.abandon()


async def test_records_are_flushed_once_they_have_waited_for_flush_ms(tmp_path):
    context, keeper = kept(tmp_path, **{"log.flush.scheduler.interval.ms": 2**63 - 1})
    lazy, timed = open_log(tmp_path / "lazy-0"), open_log(tmp_path / "timed-0", flush_ms="5000")
    context.data_dir.logs = {("lazy", 0): lazy, ("timed", 0): timed}
    for each in (lazy, timed):
        append(each, values(b"a"), now_ms=NOW_MS)
    keeper.start()
    context.clock.ms += 4_999
    await asyncio.sleep(0.05)
    assert timed.recovery_point == 0
    append(timed, values(b"b"), now_ms=context.clock.ms)
    context.clock.ms += 1
    async with asyncio.timeout(60):
        while timed.recovery_point < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    keeper.stop()
    assert lazy.recovery_point == 0
    lazy.abandon(), timed.abandon()


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_the_files_of_deleted_segments_stay_for_file_delete_delay_ms(tmp_path, delay_ms):
    context, keeper = kept(tmp_path, **{"log.flush.scheduler.interval.ms": 60_000})
    limits = {"segment_bytes": "70", "retention_bytes": "1", "file_delete_delay_ms": str(delay_ms)}
    log = open_log(tmp_path / "t-0", **limits)
    for value in (b"a", b"b", b"c"):
        append(log, values(value))
    context.data_dir.logs = {("t", 0): log}
    keeper.start()
    async with asyncio.timeout(60):
        while log.log_start_offset < 2 or (delay_ms == 0 and list(log.directory.glob("*.deleted"))):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    keeper.stop()
    assert bool(list(log.directory.glob("*.deleted"))) is (delay_ms > 0)
    log.abandon()


async def test_a_log_deleted_in_the_middle_of_a_round_is_not_looked_after_any_more(tmp_path):
    context, keeper = kept(tmp_path)
    first, old, new = (Log(name, broken=False) for name in ("first", "old", "new"))
    context.data_dir.logs = {("a", 0): first, ("t", 0): old}
    seen: list[str] = []
    both_rounds = asyncio.Event()

    async def job(topic: str, index: int, each: Any) -> None:
        seen.append(each.directory.name)
        context.data_dir.logs["t", 0] = new
        if each is new:
            both_rounds.set()

    task = asyncio.create_task(keeper.repeat(Job(0, lambda _key, _each, _now: True, job)))
    async with asyncio.timeout(60):
        await both_rounds.wait()
    task.cancel()
    assert seen == ["first", "first", "new"]


async def test_a_compaction_under_way_stays_in_the_folder_of_its_log(tmp_path):
    log = open_log(tmp_path / "t-0", cleanup_policy="compact", segment_bytes="70")
    for value in (b"a", b"b", b"c"):
        append(log, values(value))
    plan = log.cleaning.plan(NOW_MS, force=True)
    assert plan is not None
    compaction = asyncio.create_task(compact_in_process(plan))
    await asyncio.sleep(0)
    log.abandon()
    log.directory.rename(tmp_path / "t-0.delete")
    log.directory.mkdir()
    result = await compaction
    assert list((tmp_path / "t-0.delete").glob("*.log.cleaned"))
    assert log.cleaning.swap(result, NOW_MS) == []
    assert not list(log.directory.iterdir())
