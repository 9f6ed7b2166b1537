"""A member that speaks the consumer protocol (KIP-848) if its group's coordinator does, and the classic one else.

Nobody is asked before: the coordinator's answer to a heartbeat that joins decides. It knows better than a list of its
APIs and features, which Kafka's brokers also have while the protocol is turned off. Each join is decided anew. So a
member whose group was deleted, became a classic one, or has a coordinator that serves the protocol no longer, loses its
partitions and is in the group again at once, as a classic member would be. A classic member stays one: those that run
while their brokers are upgraded are classic until their successors begin.

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
from actors.client.settings import ConsumerConfig
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import ApiMessage, ConsumerGroupHeartbeatResponse

log = logging.getLogger(__name__)

_WHY: Final[Mapping[int, str]] = {
    Code.UNSUPPORTED_VERSION: "its coordinator does not serve the consumer protocol",
    Code.GROUP_ID_NOT_FOUND: "its coordinator cannot turn it into a group of the consumer protocol",
}
"""The refusals of a join after which the classic protocol may do."""


class AutoMember:
    """A member of the consumer protocol until a join of its is refused, and a classic one from then on.

    It has all that a `Member` has: what is not here is that of the member that it is. Ids of the requests of the second
    one are negative, so that no answer to the first one is taken for its own.
    """

    def __init__(self, first: Membership, make_classic: Callable[[], Member]) -> None:
        self._first = first
        self._make_classic = make_classic
        self._now: Member = first
        self._subscribe: Callable[[Member], None] | None = None
        self._view = MetadataView()
        self._polled_ms = 0
        self._refused = ""
        self._second = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now, name)

    @property
    def commits_from(self) -> int:
        """Any version will do while it is in no group: nothing is committed as its member."""
        joins = not self._second and self._first.standing.epoch <= 0
        return 0 if joins else self._now.commits_from

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
        if self._refused:  # while it wanted what no classic member can
            self._be_classic(self._refused, self._polled_ms)

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
        """Decide whether it has to be a classic member; `why` says the reason, if a join was refused for good."""
        if self._second or why is None or self._first.state is not MemberState.FATAL:
            return
        if self._subscribe is None:
            self._refused = why
        else:
            self._be_classic(why, now_ms)

    def _be_classic(self, why: str, now_ms: int) -> None:
        log.info("group %s: this member takes the classic protocol: %s", self._first.group_id, why)
        self._second, self._refused = True, ""
        self._now = self._make_classic()
        if self._subscribe is not None:
            self._subscribe(self._now)
        self._now.on_metadata(self._view, now_ms)
        self._now.poll(self._polled_ms)


def _negative(effect: Effect) -> Effect:
    if isinstance(effect, Send):
        return Send(-effect.id, effect.to, effect.node, effect.request, effect.timeout_ms, effect.min_version)
    return effect


def auto_member(config: ConsumerConfig, pid: int, jitter: Jitter, new_member_id: Callable[[], str]) -> Member:
    """A member of the group whichever protocol its coordinator speaks, by its consumer's settings.

    Raises IllegalStateError as a classic member does: it may have to be one.
    """
    classic = classic_member(config, pid, jitter, new_member_id)
    return cast(Member, AutoMember(consumer_member(config, pid, jitter, new_member_id), lambda: classic))
