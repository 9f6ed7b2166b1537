"""What a broker does to its logs in the background, when one of them is in trouble."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from log_helpers import FullDisk, append, open_log, values

from actors import housekeeping
from actors.housekeeping import Housekeeper
from actors.log.errors import StorageError


class Log:
    """Counts its checkpoints; the first of two cannot write one."""

    def __init__(self, name: str, *, broken: bool) -> None:
        self.directory = SimpleNamespace(name=name)
        self.failure = "broken"
        self.broken = broken
        self.config = SimpleNamespace(compacts=False)
        self.checkpoints = 0
        self.retained = 0

    def write_checkpoint(self) -> None:
        self.checkpoints += 1
        if self.broken:
            raise StorageError("no space")

    def apply_retention(self, now_ms: int) -> list[Any]:
        self.retained += 1
        if self.broken:
            raise OSError(5, "Input/output error")
        return []


def test_a_log_in_trouble_keeps_no_other_from_its_upkeep(monkeypatch):
    monkeypatch.setattr(housekeeping, "_CHECKPOINT_SECONDS", 0.001)

    async def main() -> None:
        bad, good = Log("bad", broken=True), Log("good", broken=False)
        config = SimpleNamespace(integer=lambda _: 1, boolean=lambda _: False)
        logs = {("t", 0): bad, ("t", 1): good}
        context: Any = SimpleNamespace(
            config=config,
            loop=asyncio.get_running_loop(),
            data_dir=SimpleNamespace(logs=logs),
            now_ms=lambda: 0,
        )
        keeper = Housekeeper(context)
        keeper.start()
        async with asyncio.timeout(5):
            while good.checkpoints < 2 or good.retained < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        keeper.stop()
        assert bad.checkpoints >= 2
        assert bad.retained >= 2

    asyncio.run(main())


@pytest.mark.parametrize(("folder", "reloaded"), [("orders-3", []), ("__consumer_offsets-3", [3])])
def test_a_log_whose_fsync_failed_takes_appends_again_without_a_restart(tmp_path, monkeypatch, folder, reloaded):
    for interval in ("_CHECKPOINT_SECONDS", "_FLUSH_SECONDS", "_REPAIR_SECONDS"):
        monkeypatch.setattr(housekeeping, interval, 0.001)

    async def main() -> None:
        disk = FullDisk()
        log = open_log(tmp_path / folder, writer=disk)
        append(log, values(b"a"))
        disk.fsync_error = OSError(28, "No space left on device")
        with pytest.raises(StorageError):
            log.flush()
        told: list[int] = []
        context: Any = SimpleNamespace(
            config=SimpleNamespace(integer=lambda _: 60_000, boolean=lambda _: False),
            loop=asyncio.get_running_loop(),
            data_dir=SimpleNamespace(logs={("t", 3): log}),
            now_ms=lambda: 0,
            shards=SimpleNamespace(reload=told.append),
        )
        keeper = Housekeeper(context)
        keeper.start()
        refusals = 0
        async with asyncio.timeout(10):
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
        assert told == reloaded
        log.abandon()

    asyncio.run(main())
