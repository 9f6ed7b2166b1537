"""A desk of the console gives out records, and resets offsets, of a cluster that does not exist. Holds no tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from actors.client.admin.offset_plans import Log, to_earliest, to_latest
from actors.client.records import ConsumerRecord, TopicPartition
from actors.console.desk import DeskError, LoggedOutError, Preview, Records, Rights, Wish
from tests.support.synthetic_world import GROUPS, TOPICS


@dataclass
class SyntheticDesk:
    """Records and resets of that cluster. `moved` keeps the offsets that were reset."""

    may: Rights = field(default_factory=Rights)
    settings: bool = True
    """True if the owner may describe settings."""
    logged_out: bool = False
    moved: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    active: tuple[str, ...] = ("billing",)
    closed: bool = False
    value: bytes | None = None
    now_ms: int = 1_769_867_100_000
    """The time of the last records."""

    async def rights(self) -> Rights:
        if self.logged_out:
            raise LoggedOutError("The brokers do not know you any more: please log in again.")
        return self.may

    async def sees_settings(self, topic: str) -> bool:
        return self.settings

    async def records(self, partition: TopicPartition, start: int | None, count: int) -> Records:
        if partition.partition > 47:
            raise DeskError(f"there is no partition {partition.topic}-{partition.partition}")
        log = Log(46_866, 468_667)
        first = max(log.latest - count if start is None else start, log.earliest)
        return Records(log, tuple(self._record(partition, at) for at in range(first, min(first + count, log.latest))))

    def _record(self, tp: TopicPartition, offset: int) -> ConsumerRecord:
        order = {"order": offset, "customer": f"customer-{offset % 97}", "items": [{"sku": f"K-{offset % 31}", "n": 2}]}
        values = (
            json.dumps(order).encode(),
            f"order {offset} shipped".encode(),
            bytes([0, 255, 17, 34]) * 9,
            None,
        )
        value = self.value if self.value is not None else values[(0, 0, 1, 0, 2, 0, 1, 3)[offset % 8]]
        headers = [("trace", b"4bf92f3577b34da6")] if offset % 3 == 0 else []
        key = f"customer-{offset % 97}".encode()
        return ConsumerRecord(
            tp.topic, tp.partition, 3, offset, self.now_ms - (468_668 - offset) * 350, 0, key, value, headers, 10, 10
        )

    async def preview(self, wish: Wish) -> Preview:
        topics = wish.topics or next(each.topics for each in GROUPS if each.name == wish.group_id)
        logs = {
            TopicPartition(topic, n): Log(100 * n, 5000 + 100 * n) for topic in topics for n in range(TOPICS[topic][0])
        }
        committed = {tp: log.latest - 1200 for tp, log in logs.items()}
        if wish.aim == "time" and "T" not in wish.value:
            raise DeskError(f"{wish.value!r} is not a time such as 2026-01-31T13:45:00.000")
        plan = to_latest(logs) if wish.aim == "latest" else to_earliest(logs)
        refusal = f"{wish.group_id} has members. Stop them first." if wish.group_id in self.active else ""
        return Preview(wish, plan.offsets, committed, logs, (), refusal)

    async def reset(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        self.moved[group_id] = offsets

    async def close(self) -> None:
        self.closed = True
