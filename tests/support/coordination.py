"""A coordinator shard with a log in memory and a clock the test moves, and members to talk to it.

Shared by tests/unit/test_coordinator_*.py and tests/sim. Holds no tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.classic.messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from actors.coordinator.consumer.messages import MembersDescribed
from actors.coordinator.group_types import GROUP_TYPES, GroupShard, group_shard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.durable import DurableState
from actors.coordinator.groups.messages import (
    DeleteGroupsRequest,
    FetchedOffset,
    ListedGroup,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from actors.coordinator.groups.types import GroupType
from actors.coordinator.records import Record
from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now, Request, Response
from actors.coordinator.writer import Append
from tests.support.offset_rows import commit_request

START_WALL_MS = 1_700_000_000_000
NO_DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=0)


def subscription(*topics: str, userdata: bytes = b"") -> bytes:
    """A consumer's subscription, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + len(userdata).to_bytes(4, "big") + userdata


class Driver:
    """Drives one shard as the partition's actor would.

    While `holds` is set, appends are taken but stay in `held`; else they are in the log, and committed, at
    the end of the turn. Answers collect in `answers` by token; a second one for a token fails the test.
    """

    def __init__(
        self,
        config: CoordinatorConfig = NO_DELAY,
        log: Iterable[tuple[bytes, bytes | None]] = (),
        loaded: bool = True,
        types: Sequence[GroupType] = GROUP_TYPES,
    ) -> None:
        self.config = config
        self.types = types
        self.log: list[Record] = [Record(*record) for record in log]
        self.high_watermark = len(self.log)
        self.batch_ends = [len(self.log)]
        """The offsets at which the high watermark may stand: a batch is replicated whole."""
        self.now = Now(1_000, START_WALL_MS)
        self.holds = False
        self.held: list[Append] = []
        self.answers: dict[int, Response] = {}
        self.pieces: list[MembersDescribed] = []
        """The pieces of long answers."""
        self._tokens = itertools.count()
        self._ids = itertools.count(1)
        self.shard = self._new_shard()
        if loaded:
            self.load()

    def _new_shard(self) -> GroupShard:
        return group_shard(self.config, lambda: str(UUID(int=next(self._ids))), self.types)

    # -- life of the shard

    def load(self, epoch: int = 0) -> None:
        self.shard.start_loading(epoch, self.now)
        self.shard.load(self.log)
        self.shard.finish_loading(self.now, len(self.log))
        self.turn()

    def fail_over(self, config: CoordinatorConfig | None = None) -> GroupShard:
        """Leadership moves: the old shard is unloaded, a new one loads the log. Returns the old one."""
        old = self.shard
        old.unload()
        self.collect(old)
        self.config = config or self.config
        self.shard = self._new_shard()
        self.load()
        return old

    # -- turns

    def turn(self) -> None:
        self.shard.on_time(self.now)
        while True:
            while append := self.shard.take_records():
                self.held.append(append)
            if self.holds or not self.held:
                break
            self.release()
        self.collect(self.shard)

    def collect(self, shard: GroupShard) -> None:
        for token, response in shard.take_replies():
            if isinstance(response, MembersDescribed):
                self.pieces.append(response)
                continue
            assert isinstance(token, int)
            assert token not in self.answers, f"{token} was answered twice"
            self.answers[token] = response

    def append(self) -> None:
        """The log takes the oldest held append; it does not commit yet."""
        append = self.held.pop(0)
        base = len(self.log)
        self.write(append)
        self.shard.appended(append.batch_id, base, len(self.log), self.now)
        self.collect(self.shard)

    def write(self, append: Append) -> None:
        self.log += append.records
        self.batch_ends.append(len(self.log))

    def truncate(self, end: int) -> None:
        """Another leader was elected, whose log ended at `end`."""
        del self.log[end:]
        self.batch_ends = [at for at in self.batch_ends if at <= end]

    def commit(self, end: int | None = None) -> None:
        """All of the log commits, or the records below `end`."""
        self.high_watermark = len(self.log) if end is None else end
        self.shard.high_watermark(self.high_watermark, self.now)
        self.collect(self.shard)

    def release(self) -> None:
        """Every held append is taken and commits."""
        while self.held:
            self.append()
        self.commit()

    def refuse(self, error: int) -> None:
        """The log refuses the oldest held append."""
        self.shard.append_refused(self.held.pop(0).batch_id, error, self.now)
        self.collect(self.shard)

    def advance(self, ms: int) -> None:
        """Let time pass, with a turn at every deadline on the way and one at the end."""
        end = self.now.monotonic_ms + ms
        while (due := self.shard.next_deadline()) is not None and due < end:
            self.jump(max(due - self.now.monotonic_ms, 0))
        self.jump(end - self.now.monotonic_ms)

    def jump(self, ms: int) -> None:
        """Let time pass in one go."""
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)
        self.turn()

    # -- requests

    def ask(self, request: Request) -> int:
        """Send a request; its answer, if there is one yet, is in `answers` under the token returned."""
        token = next(self._tokens)
        self.shard.handle(token, request, self.now)
        self.turn()
        return token

    def call(self, request: Request) -> Any:
        """Send a request that is answered at once."""
        token = self.ask(request)
        assert token in self.answers, f"{request} was parked"
        return self.answers[token]

    def answer(self, token: int) -> Any:
        return self.answers.get(token)

    # -- shorthands

    def commit_offset(
        self,
        group_id: str | None,
        offset: int,
        *,
        topic: str = "orders",
        partition: int = 0,
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "",
        timestamp: int = -1,
        retention: int = -1,
    ) -> int:
        """The token of an OffsetCommit of one partition; `timestamp` is the wall clock's at its time, if not now."""
        rows = [(topic, partition, offset, -1, metadata)]
        now = self.now
        if timestamp >= 0:
            self.now = now._replace(wall_ms=timestamp)
        token = self.ask(commit_request(group_id, generation, member_id, instance, rows, version, retention))
        self.now = now
        return token

    def fetch(self, group_id: str, *partitions: tuple[str, int], stable: bool = False) -> tuple[FetchedOffset, ...]:
        """The offsets that OffsetFetch gives, of all partitions if none are named."""
        response = self.call(OffsetFetchRequest(group_id, partitions or None, stable))
        assert response.error_code == 0
        offsets: tuple[FetchedOffset, ...] = response.offsets
        return offsets

    def offset(self, group_id: str, topic: str = "orders", partition: int = 0) -> int:
        return self.fetch(group_id, (topic, partition))[0].offset

    def describe(self, group_id: str) -> DescribedGroup:
        described: DescribedGroup = self.call(DescribeGroupsRequest((group_id,))).groups[0]
        return described

    def state(self, group_id: str = "g") -> str:
        """The group's live state; "" when there is no group."""
        group = self.group_or_none(group_id)
        return group.state.value if group else ""

    def group(self, group_id: str = "g") -> ClassicGroup:
        group = self.group_or_none(group_id)
        assert group is not None, f"no group {group_id}"
        return group

    def group_or_none(self, group_id: str = "g") -> ClassicGroup | None:
        """The live group, if it is a classic one."""
        group = self.shard.coordinator.runtime.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def list_groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> tuple[ListedGroup, ...]:
        groups: tuple[ListedGroup, ...] = self.call(ListGroupsRequest(states, types)).groups
        return groups

    def delete_group(self, group_id: str) -> int:
        """The token of a DeleteGroups of one group."""
        return self.ask(DeleteGroupsRequest((group_id,)))

    def delete_offsets(self, group_id: str, *partitions: tuple[str, int]) -> Any:
        return self.call(OffsetDeleteRequest(group_id, partitions))

    def leave(self, group_id: str, *members: tuple[str, str | None], version: int = 5) -> LeaveGroupResponse:
        entries = tuple(LeavingMember(member_id, instance) for member_id, instance in members)
        response: LeaveGroupResponse = self.call(LeaveGroupRequest(group_id, entries, version))
        return response

    @property
    def durable(self) -> DurableState:
        return self.shard.coordinator.runtime.durable

    def is_active(self) -> bool:
        return self.shard.state is ShardState.ACTIVE


class Client:
    """One member's side: remembers the id and the generation it was given."""

    def __init__(
        self,
        driver: Driver,
        name: str = "c",
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", subscription("orders")),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
    ) -> None:
        self.driver = driver
        self.name = name
        self.group_id = group_id
        self.instance = instance
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.joining = -1
        self.syncing = -1

    def join_request(self, **changes: Any) -> JoinGroupRequest:
        fields = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "protocol_type": self.protocol_type,
            "protocols": self.protocols,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "group_instance_id": self.instance,
            "client_id": self.name,
            "client_host": "/127.0.0.1",
            "api_version": self.version,
        }
        return JoinGroupRequest(**{**fields, **changes})

    def ask_join(self, **changes: Any) -> int:
        """One JoinGroup; no second step."""
        self.joining = self.driver.ask(self.join_request(**changes))
        return self.joining

    def join(self) -> Client:
        """JoinGroup, in two steps where the version asks for it. The answer may come later: `joined`."""
        response = self.driver.answer(self.ask_join())
        if response is not None and response.error_code == 79:
            self.member_id = response.member_id
            self.ask_join()
        return self

    @property
    def join_answer(self) -> JoinGroupResponse | None:
        response: JoinGroupResponse | None = self.driver.answer(self.joining)
        return response

    def joined(self) -> JoinGroupResponse:
        """The answer to the last join, which must be a success."""
        response = self.join_answer
        assert response is not None, f"{self.name}'s join is still parked"
        assert response.error_code == 0, response
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def ask_sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> int:
        fields = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": tuple((assignments or {}).items()),
        }
        self.syncing = self.driver.ask(SyncGroupRequest(**{**fields, **changes}))
        return self.syncing

    @property
    def sync_answer(self) -> SyncGroupResponse | None:
        response: SyncGroupResponse | None = self.driver.answer(self.syncing)
        return response

    def synced(self) -> bytes:
        response = self.sync_answer
        assert response is not None, f"{self.name}'s sync is still parked"
        assert response.error_code == 0, response
        return response.assignment

    def heartbeat(self, generation: int | None = None) -> int:
        generation = self.generation if generation is None else generation
        request = HeartbeatRequest(self.group_id, generation, self.member_id, self.instance)
        error: int = self.driver.call(request).error_code
        return error

    def commit(self, offset: int = 1, generation: int | None = None, **changes: Any) -> int:
        """The error code of an OffsetCommit of one partition."""
        generation = self.generation if generation is None else generation
        fields = {"generation": generation, "member_id": self.member_id, "instance": self.instance}
        token = self.driver.commit_offset(self.group_id, offset, **{**fields, **changes})
        error: int = self.driver.answer(token).error_codes[0]
        return error


def stable_group(driver: Driver, *clients: Client) -> list[Client]:
    """Have the clients form a Stable group, the first one leading; each is assigned its own name.

    Their initial delay must be 0.
    """
    driver.holds, held = False, driver.holds
    for client in clients[:1]:
        client.join()
        driver.advance(1)
    form(driver, clients[:1])
    for client in clients[1:]:
        client.join()
    if len(clients) > 1:
        for client in clients[:1]:
            client.join()
        form(driver, clients)
    driver.holds = held
    return list(clients)


def form(driver: Driver, clients: Iterable[Client]) -> None:
    """Everybody's join has been answered: sync them, each assigned its own name."""
    members = list(clients)
    for client in members:
        client.joined()
    leader = next(client for client in members if client.join_answer and client.join_answer.members)
    for client in members:
        if client is not leader:
            client.ask_sync()
    leader.ask_sync({client.member_id: client.name.encode() for client in members})
    for client in members:
        assert client.synced() == client.name.encode()
