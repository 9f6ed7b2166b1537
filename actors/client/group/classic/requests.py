"""The requests of a member, made of its settings and its generation. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from actors.client.group.assignors import Assignor
from actors.client.group.assignors.protocol import Subscription
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.generation import Generation
from actors.client.records import TopicPartition
from actors.wire.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

PROTOCOL_TYPE = "consumer"
REASON_LIMIT = 255

Protocol = JoinGroupRequest.JoinGroupRequestProtocol


def offer(
    config: MembershipConfig,
    assignor: Assignor,
    generation: Generation,
    topics: frozenset[str],
    owned: Iterable[TopicPartition],
) -> Protocol:
    """An assignor's part of JoinGroup: its name and this member's subscription. Raises what `user_data` raises."""
    user_data = assignor.user_data(topics)
    subscription = Subscription(tuple(topics), user_data, tuple(sorted(owned)), generation.id, config.client_rack)
    return Protocol(name=assignor.name, metadata=subscription.encode())


def join(config: MembershipConfig, generation: Generation, protocols: list[Protocol], reason: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason[:REASON_LIMIT] or None,
        expected_members=config.group_expected_members,
        process=config.process,
    )


def sync(
    config: MembershipConfig,
    generation: Generation,
    assignor: str | None,
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment],
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=assignments,
    )


def heartbeat(config: MembershipConfig, generation: Generation) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def describe(config: MembershipConfig) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[config.group_id])


def leave(config: MembershipConfig, generation: Generation, reason: str) -> LeaveGroupRequest:
    """LeaveGroup with the member both as old versions (below 3) have it and as newer ones do."""
    member_id = generation.member_id
    me = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=reason[:REASON_LIMIT])
    return LeaveGroupRequest(group_id=config.group_id, member_id=member_id, members=[me])
