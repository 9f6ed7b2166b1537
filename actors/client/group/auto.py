"""A member that speaks the consumer protocol (KIP-848) if its group's coordinator does, and the classic one else.

Nobody is asked before: the coordinator's answer to the first heartbeat decides. It knows better than a list of its
APIs and features, which Kafka's brokers also have while the protocol is turned off. It decides once. So a member that
runs while its brokers are upgraded is a classic one until its successor begins.

A coordinator that serves the protocol may not be able to turn a classic group into one of it: its members' shares
cannot be read, say, or `group.consumer.migration.policy` forbids it. The member is a classic one among them then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from actors.client.errors import KafkaError, UnsupportedVersionError
from actors.client.group.classic.membership import classic_member
from actors.client.group.consumer_protocol.membership import Membership, consumer_member
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Effect, Send
from actors.client.group.member import Member
from actors.client.net.backoff import Jitter
from actors.client.net.metadata import MetadataView
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import ApiMessage, ConsumerGroupHeartbeatResponse

log = logging.getLogger(__name__)

_WHY: Final[Mapping[int, str]] = {
    Code.UNSUPPORTED_VERSION: "its coordinator does not serve the consumer protocol",
    Code.GROUP_ID_NOT_FOUND: "its coordinator cannot turn it into a group of the consumer protocol",
}
"""The refusals of a first heartbeat after which the classic protocol may do."""


class AutoMember:
    """A member of the consumer protocol until its first heartbeat is answered, and whatever it has to be from then on.

    It has all that a `Member` has: what is not here is that of the member that it is. Ids of the requests of the second
    one are negative, so that no answer to the first one is taken for its own.
    """

    def __init__(self, first: Membership, make_classic: Callable[[], Member]) -> None:
        self._first: Membership | None = first
        self._make_classic = make_classic
        self._now: Member = first
        self._subscribe: Callable[[Member], None] | None = None
        self._view = MetadataView()
        self._polled_ms = 0
        self._second = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now, name)

    @property
    def commits_from(self) -> int:
        """Any version will do until it is decided: it is in no group, so nothing is committed as its member."""
        return 0 if self._first is not None else self._now.commits_from

    # --- what the second one has to know, too ---

    def subscribe(self, topics: Iterable[str]) -> None:
        names = list(topics)
        self._wish(lambda member: member.subscribe(names))

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        self._wish(lambda member: member.subscribe_pattern(matches))

    def subscribe_expression(self, expression: str) -> None:
        self._now.subscribe_expression(expression)
        self._subscribe = None  # a classic member cannot

    def _wish(self, wish: Callable[[Member], None]) -> None:
        wish(self._now)
        self._subscribe = wish

    def poll(self, now_ms: int) -> None:
        self._now.poll(now_ms)
        self._polled_ms = now_ms

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        self._view = view
        self._now.on_metadata(view, now_ms)

    # --- requests ---

    def take_effects(self) -> list[Effect]:
        effects = self._now.take_effects()
        return [_negative(effect) for effect in effects] if self._second else effects

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        if (own := self._own(request_id)) is None:
            return
        self._now.on_response(own, response, now_ms)
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._decide(_WHY.get(response.error_code), now_ms)

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        if (own := self._own(request_id)) is None:
            return
        self._now.on_failure(own, error, now_ms)
        if isinstance(error, UnsupportedVersionError):
            self._decide(_WHY[Code.UNSUPPORTED_VERSION], now_ms)

    def _own(self, request_id: int) -> int | None:
        """The id that the present member knows a request by; None if it is the first one's and that is gone."""
        if self._second:
            return -request_id if request_id < 0 else None
        return request_id

    def _decide(self, why: str | None, now_ms: int) -> None:
        """`why` it may have to be a classic member, if the first heartbeat was refused for good."""
        first = self._first
        if first is None:
            return
        if first.standing.epoch > 0:
            self._first = None
        elif why is not None and first.state is MemberState.FATAL and self._subscribe is not None:
            log.info("group %s: this member takes the classic protocol: %s", first.group_id, why)
            self._first, self._second = None, True
            self._now = self._make_classic()
            self._subscribe(self._now)
            self._now.on_metadata(self._view, now_ms)
            self._now.poll(self._polled_ms)


def _negative(effect: Effect) -> Effect:
    if isinstance(effect, Send):
        return Send(-effect.id, effect.to, effect.node, effect.request, effect.timeout_ms, effect.min_version)
    return effect


def auto_member(settings: Mapping[str, Any], pid: int, jitter: Jitter, new_member_id: Callable[[], str]) -> Member:
    """A member of the group whichever protocol its coordinator speaks, by its consumer's settings.

    Raises IllegalStateError as a classic member does: it may have to be one.
    """
    classic = classic_member(settings, pid, jitter, new_member_id)
    return cast(Member, AutoMember(consumer_member(settings, pid, jitter, new_member_id), lambda: classic))
