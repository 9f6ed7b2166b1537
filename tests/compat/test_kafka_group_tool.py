"""Kafka's own kafka-consumer-groups prints the same of a consumer group (KIP-848) here as of one in Kafka.

The test moves two members of fixed ids: while one still has to give partitions up to the other, when both have reached
their targets, and when both have left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from actors.client import Admin, TopicPartition
from actors.client.admin.types import ConfigResource, GroupDescription
from actors.client.group.assignors.protocol import Subscription
from actors.wire.config_resources import ConfigResourceType
from actors.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tests.compat.peers import Peer
from tests.compat.raw import Raw, create_topics, serving_coordinator
from tests.compat.remote import TOOLS, Printed, Remote, run_tools
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS
brokers = against("kafka", "coterie")

TOPIC = GROUP = "tools"
COMMANDS = {
    "state": ("--describe", "--state"),
    "verbose state": ("--describe", "--state", "--verbose"),
    "members": ("--describe", "--members"),
    "verbose members": ("--describe", "--members", "--verbose"),
    "offsets": ("--describe", "--offsets"),
    "verbose offsets": ("--describe", "--offsets", "--verbose"),
    "states": ("--list", "--state"),
    "types": ("--list", "--type"),
    "classic groups": ("--list", "--type", "classic"),
    "stable groups": ("--list", "--state", "Stable"),
}
REBALANCING = "Warning: Consumer group 'tools' is rebalancing."
EMPTY = "Consumer group 'tools' has no active members."
STATE = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS"
VERBOSE_STATE = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"
MEMBERS = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS"
STATIC = "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS"
TARGETS = "CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT"
OFFSETS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
VERBOSE_OFFSETS = OFFSETS.replace("PARTITION", "PARTITION LEADER-EPOCH")
ONE, TWO, OLD = "tools member-1 /127.0.0.1 raw", "tools member-2 /127.0.0.1 raw", "tools OLD static /127.0.0.1 raw"
PRINTED = {
    ("moving", "state"): [REBALANCING, STATE, "tools COORDINATOR uniform Reconciling 2"],
    ("moving", "verbose state"): [REBALANCING, VERBOSE_STATE, "tools COORDINATOR uniform Reconciling 3 3 2"],
    ("moving", "members"): [REBALANCING, MEMBERS, f"{ONE} 6", f"{TWO} 0"],
    ("moving", "verbose members"): [
        *(REBALANCING, f"{MEMBERS} {TARGETS}"),
        *(f"{ONE} 6 2 tools:0,1,2,3,4,5 3 tools:0,1,2", f"{TWO} 0 3 - 3 tools:3,4,5"),
    ],
    ("moving", "states"): ["tools Reconciling"],
    ("moving", "stable groups"): [],
    ("stable", "state"): [STATE, "tools COORDINATOR uniform Stable 2"],
    ("stable", "verbose state"): [VERBOSE_STATE, "tools COORDINATOR uniform Stable 3 3 2"],
    ("stable", "verbose members"): [
        *(f"{MEMBERS} {TARGETS}", f"{ONE} 3 3 tools:0,1,2 3 tools:0,1,2", f"{TWO} 3 3 tools:3,4,5 3 tools:3,4,5")
    ],
    ("stable", "offsets"): [
        *(OFFSETS, "tools tools 1 7 0 -7 member-1 /127.0.0.1 raw"),
        *(f"tools tools {n} - 0 - member-1 /127.0.0.1 raw" for n in (0, 2)),
        *(f"tools tools {n} - 0 - member-2 /127.0.0.1 raw" for n in (3, 4, 5)),
    ],
    ("stable", "verbose offsets"): [
        *(VERBOSE_OFFSETS, "tools tools 1 0 7 0 -7 member-1 /127.0.0.1 raw"),
        *(f"tools tools {n} - - 0 - member-1 /127.0.0.1 raw" for n in (0, 2)),
        *(f"tools tools {n} - - 0 - member-2 /127.0.0.1 raw" for n in (3, 4, 5)),
    ],
    ("stable", "types"): ["tools Consumer"],
    ("stable", "classic groups"): [],
    ("stable", "stable groups"): ["tools Stable"],
    ("mixed", "members"): [REBALANCING, STATIC, f"{ONE} 3", f"{TWO} 3", f"{OLD} 0"],
    ("mixed", "verbose members"): [
        *(REBALANCING, f"{STATIC} {TARGETS} UPGRADED", f"{ONE} 3 3 tools:0,1,2 4 tools:0,1 true"),
        *(f"{TWO} 3 3 tools:3,4,5 4 tools:3,4 true", f"{OLD} 0 4 - 4 tools:2,5 false"),
    ],
    ("empty", "state"): [EMPTY, STATE, "tools COORDINATOR uniform Empty 0"],
    ("empty", "verbose state"): [EMPTY, VERBOSE_STATE, "tools COORDINATOR uniform Empty 7 7 0"],
    ("empty", "verbose members"): [EMPTY, f"{MEMBERS} {TARGETS}"],
    ("empty", "offsets"): [EMPTY, OFFSETS, "tools tools 1 7 0 -7 - - -"],
    ("empty", "types"): ["tools Consumer"],
}
"""Each line that the tool prints in each state of the group, one blank between two words. The order is the broker's."""
_COORDINATOR = re.compile(r"\S+:\d+ +\(\d+\)")
_CLASSIC_ID = re.compile(r"\S+ +static(?=\s)")
Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


class Member:
    """A member whose heartbeats the test sends one by one."""

    def __init__(self, raw: Raw, member_id: str, rack: str | None = None) -> None:
        self._raw, self._id, self._rack = raw, member_id, rack
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def beat(self, *, obeys: bool = True) -> None:
        """One heartbeat. A member that does not obey still reports the partitions that it had."""
        joins = self.epoch == 0
        answer = self._raw.call(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self._id,
                member_epoch=self.epoch,
                rack_id=self._rack,
                rebalance_timeout_ms=300_000 if joins else -1,
                subscribed_topic_names=[TOPIC] if joins else None,
                topic_partitions=[Owned(topic_id=each, partitions=some) for each, some in self.owned.items()],
            ),
            1,
        )
        assert answer.error_code == 0, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None and obeys:
            self.owned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}

    def leave(self) -> None:
        self.epoch, self.owned = -1, {}
        self.beat()

    @property
    def partitions(self) -> list[int]:
        return sorted(index for some in self.owned.values() for index in some)


@dataclass(slots=True)
class Shown:
    """The tool's output in each state of the group, and the description of our Admin."""

    printed: dict[tuple[str, str], Printed]
    ours: dict[str, GroupDescription]


_shown: dict[str, Shown] = {}


@pytest.fixture
def shown(kafka: Peer, java: Remote) -> Shown:
    servers = kafka.bootstrap_servers
    if servers not in _shown:
        create_topics(servers, {TOPIC: 6})
        with Admin(bootstrap_servers=servers) as admin:
            group = ConfigResource(ConfigResourceType.GROUP, GROUP)
            admin.incremental_alter_configs({group: {"consumer.assignment.interval.ms": "0"}})
        _shown[servers] = Shown({}, {})
        for state in _states(servers):
            _look(_shown[servers], java, servers, state)
    return _shown[servers]


def _states(servers: str) -> Iterator[str]:
    with Raw(serving_coordinator(servers, GROUP)) as raw:
        _await_partitions(raw, servers)
        one, two = Member(raw, "member-1"), Member(raw, "member-2", "a-rack")
        wait_until(lambda: one.beat() or one.partitions == list(range(6)), what="all partitions")
        _commit(raw, one)
        two.beat()
        wait_until(
            lambda: _described(servers).assignment_epoch == 3 or one.beat(obeys=False) or two.beat(),
            what="a target for two",
        )
        one.beat(obeys=False)
        yield "moving"
        one.owned = {topic_id: [0, 1, 2] for topic_id in one.owned}
        wait_until(lambda: one.beat() or two.beat() or len(two.partitions) == 3, what="a share for each")
        one.beat()
        two.beat()
        yield "stable"
        old = _join_classic(raw)
        wait_until(lambda: one.beat() or two.beat() or _give_up(one, two), what="a share for a third")
        yield "mixed"
        _leave(raw, old)
        one.leave()
        two.leave()
        yield "empty"


def _await_partitions(raw: Raw, servers: str) -> None:
    """Returns when the coordinator knows the new topic.

    Kafka's coordinator hears of it some time after its creation. A group that was there before has one epoch more.
    """
    scout = Member(raw, "scout")
    wait_until(lambda: scout.beat() or scout.partitions == list(range(6)), what="the coordinator to know the topic")
    scout.leave()
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_consumer_groups([GROUP])


def _commit(raw: Raw, member: Member) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=7, committed_leader_epoch=0, committed_metadata="note"
    )
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
    asked = OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=member.epoch, member_id="member-1", topics=topics
    )
    assert raw.call(asked, 9).topics[0].partitions[0].error_code == 0


def _join_classic(raw: Raw) -> str:
    """A static member of the classic protocol joins, and syncs."""
    metadata = Subscription(topics=(TOPIC,)).encode()
    asked = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = raw.call(asked, 9)
    assert joined.error_code == 0
    generation, member_id = joined.generation_id, joined.member_id
    synced = raw.call(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id="static",
            protocol_type="consumer",
            protocol_name="range",
        ),
        5,
    )
    assert synced.error_code == 0
    return str(member_id)


def _leave(raw: Raw, member_id: str) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id="static")
    assert raw.call(LeaveGroupRequest(group_id=GROUP, members=[member]), 5).error_code == 0


def _described(servers: str) -> GroupDescription:
    with Admin(bootstrap_servers=servers) as admin:
        (group,) = admin.describe_consumer_groups([GROUP])
    return group


def _look(shown: Shown, java: Remote, servers: str, state: str) -> None:
    tool = (f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--bootstrap-server", servers)
    wanted = [what for in_state, what in PRINTED if in_state == state]
    group = {"--describe": ("--group", GROUP), "--list": ()}
    commands = [(*tool, *COMMANDS[what], *group[COMMANDS[what][0]]) for what in wanted]
    for what, printed in zip(wanted, run_tools(java, commands), strict=True):
        shown.printed[state, what] = printed
    shown.ours[state] = _described(servers)


def _give_up(*members: Member) -> bool:
    return all(len(each.partitions) == 2 for each in members)


def _lines(printed: Printed) -> list[str]:
    text = _CLASSIC_ID.sub("OLD static", _COORDINATOR.sub("COORDINATOR", printed.text))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@brokers
@pytest.mark.conformance("K-A-79", "K-G-05")
@pytest.mark.parametrize(("state", "what"), PRINTED)
def test_the_tool_prints_it_as_of_kafka(kafka: Peer, shown: Shown, state: str, what: str) -> None:
    printed = shown.printed[state, what]
    lines = _lines(printed)
    if COMMANDS[what][0] == "--list":  # other groups are there, too
        lines = [line for line in lines if line.split()[0] == GROUP]
    assert printed.status == 0
    assert sorted(lines) == sorted(PRINTED[state, what])


@brokers
def test_our_admin_tells_the_same(kafka: Peer, shown: Shown) -> None:
    moving, mixed, empty = (shown.ours[each] for each in ("moving", "mixed", "empty"))
    assert (moving.type, moving.protocol, moving.epoch, moving.assignment_epoch) == ("consumer", "uniform", 3, 3)
    one, two = sorted(moving.members, key=lambda each: each.member_id)
    held = [tuple(TopicPartition(TOPIC, n) for n in some) for some in (range(6), range(3), range(3, 6))]
    assert (one.assignment, one.target, one.to_give_back, one.to_come) == (held[0], held[1], held[2], ())
    assert (two.assignment, two.target, two.to_give_back, two.to_come) == ((), held[2], (), held[2])
    assert (one.epoch, two.epoch, one.rack_id, two.rack_id, two.topics) == (2, 3, None, "a-rack", (TOPIC,))
    assert sorted(each.is_classic for each in mixed.members) == [False, False, True]
    assert (empty.state, empty.members, empty.tells_members) == ("Empty", (), True)
