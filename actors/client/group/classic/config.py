"""The settings of a member of a classic group, made of its consumer's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actors.client.errors import IllegalStateError
from actors.client.group.assignors import BUILT_IN, Assignor, RebalanceProtocol
from actors.client.settings import ConsumerConfig
from actors.links.member_process import said


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """The settings of a member. Times are in milliseconds."""

    group_id: str
    assignors: tuple[Assignor, ...]
    group_instance_id: str | None = None
    group_expected_members: int = 0
    process: str = ""
    """The member's words about its process (`links/member_process.py`)."""
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    auto_commit: bool = True
    exclude_internal_topics: bool = True

    @property
    def protocol(self) -> RebalanceProtocol:
        """The highest rebalance protocol that all assignors support. Raises IllegalStateError if there is none."""
        common = set(RebalanceProtocol)
        for assignor in self.assignors:
            common &= set(assignor.protocols)
        if not common:
            names = ", ".join(assignor.name for assignor in self.assignors)
            raise IllegalStateError(
                f"the assignors of partition_assignment_strategy share no rebalance protocol: {names}; "
                "take only eager or only cooperative ones"
            )
        return max(common) if self.assignors else RebalanceProtocol.EAGER

    def assignor(self, name: str | None) -> Assignor:
        """The configured assignor of that name. Raises IllegalStateError if there is none."""
        for assignor in self.assignors:
            if assignor.name == name:
                return assignor
        raise IllegalStateError(
            f"the coordinator chose the assignor {name!r}, which is not in this member's partition_assignment_strategy"
        )


def make_assignors(strategies: list[Any] | tuple[Any, ...]) -> tuple[Assignor, ...]:
    """The assignors of partition_assignment_strategy: names and classes become instances."""
    made = []
    for entry in strategies:
        if isinstance(entry, str):
            entry = BUILT_IN[entry]
        made.append(entry() if isinstance(entry, type) else entry)
    return tuple(made)


def membership_config(config: ConsumerConfig, pid: int) -> MembershipConfig:
    """Those of a consumer's settings that its membership needs, and its process.

    Raises IllegalStateError if the assignors share no rebalance protocol.
    """
    made = MembershipConfig(
        group_id=config.group_id or "",
        assignors=make_assignors(config.partition_assignment_strategy),
        group_instance_id=config.group_instance_id,
        group_expected_members=config.group_expected_members,
        process=said(config.group_member_process, pid),
        client_rack=config.client_rack or None,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        auto_commit=config.enable_auto_commit,
        exclude_internal_topics=config.exclude_internal_topics,
    )
    _ = made.protocol  # raises here instead of in the first poll
    return made
