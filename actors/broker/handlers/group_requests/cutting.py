"""Group requests that no shard can answer as they came: they become questions to shards, whose answers are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actors.broker.handlers.authorization import denied
from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.rights import Right
from actors.coordinator_kinds.groups import GROUPS
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response
from actors.wire.messages import ApiMessage, response_class

_LONG_BYTES: Final = 1 << 16
"""A longer answer costs more than a moment to decode and to encode."""
IDS_FROM = 10
"""The version from which commits and fetches of offsets name topics by their ids."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The questions, each with the offsets partition whose shard is asked, and how their answers become one."""

    parts: Sequence[tuple[int, ApiMessage]]
    merge: Callable[[list[Any]], ApiMessage]
    """Takes the answers in the order of the parts."""
    newest: int = 1 << 15
    """The last version in which shards are asked: those of an older build do not know all that clients send."""

    def ask(self, context: HandlerContext, request: Request) -> None:
        """Ask all shards, and answer the request when all have answered, unless its client has gone meanwhile."""
        answers: list[Any] = [None] * len(self.parts)
        missing = len(self.parts)
        if not self.parts:
            request.reply(self.merge([]))

        def collect(index: int) -> Callable[[ApiMessage], None]:
            def done(answer: ApiMessage) -> None:
                nonlocal missing
                answers[index] = answer
                missing -= 1
                if missing == 0 and not request.is_moot:
                    request.reply(self.merge(answers))

            return done

        shards = context.coordinators[GROUPS]
        version = min(request.version, self.newest)
        for index, (partition, message) in enumerate(self.parts):
            shards.ask(partition, message, version, collect(index))

    def describe(
        self, context: HandlerContext, request: Request, merge_long: Callable[[list[bytes]], None] | None = None
    ) -> None:
        """Ask all shards, and answer the request when all have answered. If its client goes, the shards stop.

        Answers that are long are not decoded if there is `merge_long`, which is given their frames and answers itself.
        """
        slot = request.slot
        if slot is None or not self.parts:
            request.reply(self.merge([]))
            return
        frames: list[bytes] = [b""] * len(self.parts)
        missing = len(self.parts)

        def collect(index: int) -> Callable[[bytes], None]:
            def done(frame: bytes) -> None:
                nonlocal missing
                frames[index] = frame
                missing -= 1
                if missing or request.is_moot:
                    return
                if merge_long is not None and sum(map(len, frames)) > _LONG_BYTES:
                    merge_long(frames)
                else:
                    response = response_class(request.header.api_key)
                    answers = [decode_response(response, request.version, each[4:])[1] for each in frames]
                    request.reply(self.merge(answers))

            return done

        for index, (partition, message) in enumerate(self.parts):
            context.coordinators[GROUPS].ask_for(slot, partition, message, request.version, collect(index))

    def pass_on(self, context: HandlerContext, request: Request) -> None:
        """Describe by the only shard. If its answer is long, it leaves as it is.

        Then it may neither have to be changed, nor have an error in it, which would have to be counted.
        """
        self.describe(context, request, lambda frames: request.reply_frame(frames[0]))


def by_partition(context: HandlerContext, groups: Iterable[str]) -> dict[int, list[str]]:
    """Groups by their offsets partition."""
    shares: dict[int, list[str]] = {}
    for group in groups:
        shares.setdefault(context.broker.partition_of(GROUPS, group), []).append(group)
    return shares


def topic_codes(context: HandlerContext, request: Request, right: Right, topics: Sequence[Any]) -> list[int]:
    """For each topic 0, or why it is not asked of the shard.

    A topic that is given by its id is judged by its name. An id that this broker does not know is unknown: the shard,
    which may know more a moment later, is not asked.
    """
    if not context.broker.authorizer.checks:
        return [0] * len(topics)
    names = [topic_name(context, request, topic) for topic in topics]
    forbidden = denied(context, request, right, names)
    return [
        ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in forbidden else 0
        for name in names
    ]


def topic_name(context: HandlerContext, request: Request, topic: Any) -> str | None:
    """The name of a topic in a request or an answer; None if this broker does not know its id."""
    name: str = topic.name
    return name if request.version < IDS_FROM else context.broker.metadata.names.get(topic.topic_id)
