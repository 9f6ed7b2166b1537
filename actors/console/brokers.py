"""The Desk of somebody who is known to the brokers: an Admin and consumers that are him."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, TypeVar

from actors.client import Admin, Consumer
from actors.client.admin import lookups, offset_plans
from actors.client.admin.offset_plans import Log, Plan, PlanError
from actors.client.admin.types import ConfigResource
from actors.client.errors import (
    AuthenticationError,
    ClusterAuthorizationError,
    KafkaError,
    TopicAuthorizationError,
)
from actors.client.records import ConsumerRecord, TopicPartition
from actors.console.desk import DeskError, LoggedOutError, Preview, Records, Rights, Wish
from actors.runtime.environment import Clock
from actors.wire.config_resources import ConfigResourceType

T = TypeVar("T")

CLIENT_ID: Final = "coterie-console"
_TIMEOUT_MS: Final = 15_000
_FETCH_BYTES: Final = 4 << 20
_READ_BYTES: Final = 16 << 20
"""A look ends with the record by which keys and values have so many bytes."""
_READ_S: Final = 5.0
_AT_ONCE: Final = 4
"""Things done for one visitor; more wait."""
_EMPTY: Final = ("Empty", "Dead")


def client_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of our clients: what is given, with our name and a wait that people stand."""
    return {"default_api_timeout_ms": _TIMEOUT_MS, "client_id": CLIENT_ID, **settings}


class BrokerDesk:
    """A Desk at the brokers, by the settings of a client. Its methods run in threads.

    A user who has logged in stays so on his connections, also when he is no user any more. So each method logs in anew,
    and `admin`, which stays connected, is for what is shown after his rights were asked for.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._settings = client_settings(settings)
        self._clock = clock
        self.admin = Admin(**self._settings)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def rights(self) -> Rights:
        """The user's rights. Raises DeskError."""
        return await self._do(self._rights)

    def _rights(self) -> Rights:
        with self._logged_in() as admin:
            groups = frozenset(each.group_id for each in admin.list_consumer_groups())
            topics = frozenset(admin.list_topics())
            try:
                admin.list_partition_reassignments()
            except ClusterAuthorizationError:
                return Rights(groups, topics, cluster=False)
            return Rights(groups, topics)

    async def sees_settings(self, topic: str) -> bool:
        """True if he may describe the settings of a topic. Raises DeskError."""
        return await self._do(lambda: self._sees_settings(topic))

    def _sees_settings(self, topic: str) -> bool:
        try:
            self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        except TopicAuthorizationError:
            return False
        return True

    @contextmanager
    def _logged_in(self) -> Iterator[Admin]:
        if "sasl_mechanism" not in self._settings:
            yield self.admin
            return
        with closing(Admin(**self._settings)) as admin:
            yield admin

    async def records(self, partition: TopicPartition, start: int | None, count: int) -> Records:
        """At most `count` records from `start` on, or the last ones if it is None. Raises DeskError."""
        return await self._do(lambda: self._records(partition, start, count))

    def _records(self, partition: TopicPartition, start: int | None, count: int) -> Records:
        with self._logged_in() as admin:
            log = lookups.logs(admin, [partition]).get(partition)
        if log is None:
            raise DeskError(f"there is no partition {partition.topic}-{partition.partition}")
        first = max(log.latest - count if start is None else min(start, log.latest), log.earliest)
        if first >= log.latest:
            return Records(log, ())
        settings: dict[str, Any] = {
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
            "fetch_max_bytes": _FETCH_BYTES,
            "auto_offset_reset": "earliest",
        }
        with closing(Consumer(**self._settings, **settings)) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, first)
            return Records(log, tuple(self._read(consumer, log, count)))

    def _read(self, consumer: Consumer, log: Log, count: int) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        end, left = self._clock.monotonic() + _READ_S, _READ_BYTES
        while len(found) < count and self._clock.monotonic() < end:
            for records in consumer.poll(timeout_ms=500, max_records=count - len(found)).values():
                for each in records:
                    found.append(each)
                    left -= each.serialized_key_size + each.serialized_value_size
                    if left < 0:
                        return found
            if found and found[-1].offset + 1 >= log.latest:
                break
        return found

    async def preview(self, wish: Wish) -> Preview:
        """The effect that a reset would have now. Raises DeskError."""
        return await self._do(lambda: self._preview(wish))

    def _preview(self, wish: Wish) -> Preview:
        with self._logged_in() as admin:
            return self._seen_by(admin, wish)

    def _seen_by(self, admin: Admin, wish: Wish) -> Preview:
        group = lookups.described_groups(admin, [wish.group_id])[wish.group_id]
        committed = {tp: at.offset for tp, at in admin.list_consumer_group_offsets(wish.group_id).items()}
        meant = [tp for tp in sorted(committed) if not wish.topics or tp.topic in wish.topics]
        logs = lookups.logs(admin, meant)
        plan = self._plan(admin, wish, logs, committed)
        refusal = ""
        if group.state not in _EMPTY:
            members = f" with {len(group.members)}" if group.tells_members else ""
            refusal = (
                f"Offsets can only be moved while a group has no members, and {wish.group_id} is {group.state}"
                f"{members}. Stop them first."
            )
        return Preview(wish, plan.offsets, committed, logs, tuple(plan.warnings), refusal)

    def _plan(
        self, admin: Admin, wish: Wish, logs: dict[TopicPartition, Log], committed: dict[TopicPartition, int]
    ) -> Plan:
        match wish.aim:
            case "earliest":
                return offset_plans.to_earliest(logs)
            case "latest":
                return offset_plans.to_latest(logs)
            case "offset":
                return offset_plans.to_offset(logs, _whole(wish.value, least=0))
            case "shift":
                return offset_plans.shift_by(logs, committed, _whole(wish.value))
            case "time":
                moment = offset_plans.parse_time(wish.value)
            case "duration":
                moment = self._clock.wall_ms() - offset_plans.parse_duration(wish.value)
        return offset_plans.to_times(logs, lookups.offsets_at(admin, logs, moment))

    async def reset(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """Commit these offsets for a group that has no members. Raises DeskError."""
        await self._do(lambda: self._reset(group_id, offsets))

    def _reset(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        with self._logged_in() as admin:
            admin.alter_consumer_group_offsets(group_id, offsets)

    async def close(self) -> None:
        """Close his connections."""
        await asyncio.to_thread(self.admin.close)

    async def _do(self, work: Callable[[], T]) -> T:
        async with self._turns:
            try:
                return await asyncio.to_thread(work)
            except AuthenticationError as error:
                raise LoggedOutError("The brokers do not know you any more: please log in again.") from error
            except (KafkaError, PlanError) as error:
                raise DeskError(str(error)) from error


def _whole(text: str, least: int | None = None) -> int:
    try:
        value = int(text)
    except ValueError:
        raise DeskError(f"{text!r} is not a whole number") from None
    if (least is not None and value < least) or abs(value) >= 2**63:
        raise DeskError(f"{value} is no offset")
    return value
