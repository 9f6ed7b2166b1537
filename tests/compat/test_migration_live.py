"""A group of librdkafka's classic members is rolled to `group.protocol=consumer` one by one, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from actors.wire.messages import ListGroupsRequest
from tests.compat.consumer_members import Member, described
from tests.compat.driving import all_closed
from tests.compat.peers import Peer
from tests.compat.raw import Raw, create_topics, serving_coordinator
from tests.compat.support import ONE_PROCESS, against, wait_until
from tests.compat.test_group_protocols import ALL, PARTITIONS, committed, produce

pytestmark = ONE_PROCESS

SIZE = 3
RECORDS = 60
CLASSIC, CONSUMER = 0, 1
"""The types of members, as they are described."""


def new_member(servers: str, name: str, kind: int, assignor: str) -> Member:
    classic = {"group_protocol": "classic", "partition_assignment_strategy": assignor, "session_timeout_ms": 10_000}
    fields: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    return Member(
        servers, name, name, **fields, **({"heartbeat_interval_ms": 300} | classic if kind == CLASSIC else {})
    )


def shares(members: Sequence[Member]) -> bool:
    """True if each has an equal share, and all together have everything once."""
    owned = [each.owned() for each in members]
    return all(len(each) == PARTITIONS // SIZE for each in owned) and frozenset(chain(*owned)) == ALL


def type_of(servers: str, group: str) -> str:
    with Raw(serving_coordinator(servers, group)) as raw:
        groups = raw.call(ListGroupsRequest(states_filter=[], types_filter=[]), 5).groups
    return next((f"{each.group_type} {each.group_state}" for each in groups if each.group_id == group), "")


def roll(servers: str, name: str, members: list[Member], kind: int, assignor: str) -> None:
    """Exchange the members one by one, each time until all have their shares."""
    for _ in range(SIZE):
        members.pop(0).close()
        members.append(new_member(servers, name, kind, assignor))
        wait_until(lambda: shares(members), what="a share for each")


def expect_to_be_rolled(servers: str, name: str, assignor: str) -> None:
    """Roll a group from classic members to those of the consumer protocol and back, while they read and commit."""
    create_topics(servers, {name: PARTITIONS})
    produce(servers, name, RECORDS)
    with contextlib.ExitStack() as stack:
        members = [new_member(servers, name, CLASSIC, assignor) for _ in range(SIZE)]
        stack.enter_context(all_closed(members))
        wait_until(lambda: shares(members), what="a share for each")
        roll(servers, name, members, CONSUMER, assignor)
        wait_until(lambda: type_of(servers, name) == "consumer Stable", what="the group at rest")
        assert [each.member_type for each in described(servers, name).members] == [CONSUMER] * SIZE
        produce(servers, name, RECORDS)
        wait_until(lambda: sum(committed(servers, name).values()) == 2 * RECORDS, what="all records")
        roll(servers, name, members, CLASSIC, assignor)
        wait_until(lambda: type_of(servers, name) == "classic Stable", what="the group at rest")
        assert committed(servers, name) == dict.fromkeys(range(PARTITIONS), 2 * RECORDS // PARTITIONS)
        produce(servers, name, RECORDS)
        wait_until(lambda: sum(committed(servers, name).values()) == 3 * RECORDS, what="all records")


@pytest.mark.conformance("K-E-01", "K-E-04", "K-E-18", "K-E-35", "K-D-29")
@against("coterie", "kafka")
def test_a_group_of_cooperative_members_is_rolled_to_the_other_protocol_and_back(kafka: Peer, name: str) -> None:
    expect_to_be_rolled(kafka.bootstrap_servers, name, "cooperative-sticky")


@pytest.mark.conformance("K-E-01", "K-E-04", "K-E-17", "K-E-35", "K-D-29")
def test_a_group_of_eager_members_is_rolled_to_the_other_protocol_and_back(kafka: Peer, name: str) -> None:
    expect_to_be_rolled(kafka.bootstrap_servers, name, "range")
