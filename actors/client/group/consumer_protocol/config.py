"""The settings of a member of a consumer group, made of its consumer's."""

from __future__ import annotations

from dataclasses import dataclass

from actors.client.settings import ConsumerConfig
from actors.links.member_process import said


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """The settings of a member. Times are in milliseconds.

    Heartbeat interval and session timeout are the coordinator's: each answer names the interval.
    """

    group_id: str
    group_instance_id: str | None = None
    group_remote_assignor: str | None = None
    """The coordinator's assignor that this member votes for; None: it has no wish."""
    process: str = ""
    """The member's words about its process (`links/member_process.py`)."""
    client_rack: str | None = None
    max_poll_interval_ms: int = 300_000
    """Also the group's patience with this member: its rebalance timeout."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    auto_commit: bool = True
    exclude_internal_topics: bool = True
    takes_over: bool = False
    """True if a static member that joins first takes its place from the one that has it, as in a classic group."""
    joins_anew: bool = False
    """True if a member that is refused for its protocol loses its partitions and joins again, in whichever it may be.

    That is what a group says which was deleted, which became a classic one, or whose coordinator serves this protocol
    no longer. Without it the group will not have this member.
    """
    heartbeat_max_ms: int = 0
    """The longest time between two heartbeats, if the coordinator's interval is longer; 0: it is the coordinator's."""


def member_config(config: ConsumerConfig, pid: int) -> MemberConfig:
    """Those of a consumer's settings that its membership needs, and its process."""
    return MemberConfig(
        group_id=config.group_id or "",
        group_instance_id=config.group_instance_id,
        group_remote_assignor=config.group_remote_assignor,
        process=said(config.group_member_process, pid),
        client_rack=config.client_rack or None,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        auto_commit=config.enable_auto_commit,
        exclude_internal_topics=config.exclude_internal_topics,
        takes_over=config.group_instance_takeover,
        joins_anew=config.group_protocol == "auto",
        heartbeat_max_ms=config.group_heartbeat_max_ms,
    )
