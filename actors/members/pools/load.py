"""The figures by which a pool's size is decided: its group's lag, asked of any Kafka, and the work of its members."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from actors.client import Admin, TopicPartition
from actors.client.admin.offset_plans import Log
from actors.client.config import security_settings
from actors.client.errors import KafkaError
from actors.members.autoscale import Load
from actors.members.committed import committed_offsets
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.slots import Slot
from actors.members.workload import Work
from actors.runtime.logs import about

log = logging.getLogger(__name__)

_ASK_MS: Final = 10_000
_BROKERS_SAY: Final = (KafkaError, OSError)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of records that wait in each partition; None if it has no leader. `divided`: each has a member."""

    lags: Mapping[TopicPartition, int | None]
    divided: bool


class GroupLoad:
    """Asks for the lag of a group. Connects when it is asked first."""

    def __init__(self, spec: MemberSpec, admin: Callable[..., Admin] = Admin) -> None:
        self._spec = spec
        self._make = admin
        self._admin: Admin | None = None
        self._from_earliest = spec.options.get("auto_offset_reset", "earliest") == "earliest"
        self._isolation_level = int(spec.options.get("isolation_level") == "read_committed")

    def look(self, members: Collection[str]) -> Waiting | None:
        """The lag now; None if somebody who has to be asked does not say. `members` are the ids of the pool's own."""
        try:
            if self._admin is None:
                settings = security_settings(self._spec.options)
                self._admin = self._make(bootstrap_servers=self._spec.bootstrap_servers, **settings)
            leaders = self._leaders(self._admin)
            lags = dict.fromkeys(leaders) | self._lags(
                self._admin, [tp for tp, leader in leaders.items() if leader >= 0]
            )
            return Waiting(lags, self._divided(self._admin, leaders, members))
        except _BROKERS_SAY as error:
            of_group = about(group=self._spec.group_id)
            log.info("group %s: its lag is unknown: %s", self._spec.group_id, error, extra=of_group)
            return None

    def close(self) -> None:
        """Close the connections."""
        if self._admin is not None:
            self._admin.close()

    def _leaders(self, admin: Admin) -> dict[TopicPartition, int]:
        topics = admin.describe_topics(self._spec.topics, timeout_ms=_ASK_MS)
        return {TopicPartition(topic.name, p.partition): p.leader for topic in topics for p in topic.partitions}

    def _lags(self, admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        # The committed offsets first: otherwise what is handled meanwhile would be more than there is.
        committed = committed_offsets(admin, self._spec.group_id, partitions, timeout_ms=_ASK_MS)
        ends = self._offsets(admin, partitions, "latest")
        begins = self._offsets(admin, partitions, "earliest")  # later than the offset where retention has deleted
        logs = {tp: Log(begins[tp], ends[tp]) for tp in partitions}
        return {tp: max(0, self._lag(logs[tp], committed.get(tp))) for tp in partitions}

    def _lag(self, log: Log, committed: int | None) -> int:
        if committed is not None:
            return log.lag(committed)
        # Where a group that begins at the end has no offset yet, a member has to come and commit where it begins.
        return log.lag(log.earliest) if self._from_earliest else 1

    def _offsets(self, admin: Admin, partitions: Sequence[TopicPartition], where: str) -> dict[TopicPartition, int]:
        asked: dict[TopicPartition, int | str] = dict.fromkeys(partitions, where)
        found = admin.list_offsets(asked, isolation_level=self._isolation_level, timeout_ms=_ASK_MS)
        return {tp: at.offset for tp, at in found.items() if at is not None}

    def _divided(self, admin: Admin, partitions: Collection[TopicPartition], members: Collection[str]) -> bool:
        (group,) = admin.describe_consumer_groups([self._spec.group_id], timeout_ms=_ASK_MS, show_hidden=True)
        if not members:
            return group.state in ("Empty", "Dead", "Stable")
        present = {member.member_id for member in group.members}
        owned = {tp for member in group.members for tp in member.assignment}
        return group.state == "Stable" and present.issuperset(members) and owned.issuperset(partitions)


class Members(Protocol):
    """A pool's members; `Supervision`."""

    def __len__(self) -> int: ...
    def all(self) -> list[Slot]: ...
    def totals(self) -> tuple[int, float]: ...


class PoolLoad:
    """Puts together what the brokers and the pool's members say."""

    def __init__(self, members: Members, group: GroupLoad, monotonic: Callable[[], float]) -> None:
        self._members = members
        self._group = group
        self._monotonic = monotonic
        self._work = Work(monotonic(), *members.totals())

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._group.close()

    def look(self) -> Load:
        """The figures now."""
        slots = [slot for slot in self._members.all() if not slot.failed]
        waiting = [slot for slot in slots if slot.waits]
        found = self._group.look([slot.report.member_id for slot in slots if not slot.waits])
        at_s = self._monotonic()
        busy = self._work.busy(at_s, *self._members.totals())
        owner = {tp: slot.number for slot in slots for tp in slot.report.assignment}
        return Load(
            at_s=at_s,
            size=len(self._members),
            lags=None if found is None else tuple(found.lags.values()),
            owners=() if found is None else tuple(owner.get(tp) for tp in found.lags),
            busy=busy,
            per_second=self._work.per_second,
            waiting=len(waiting),
            settled=found is not None and found.divided and all(slot.settled for slot in slots),
        )
