"""Regular expressions of consumer groups become topics: in a thread, and then as far as the client may see them.

The shard says what is to be resolved. Names are matched outside its loop; the broker, which has the ACLs and knows the
client, says which of the topics that were found the client may describe; the rest is what the shard is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import count

from actors.coordinator.consumer.messages import Resolution, ResolutionsRequest, ResolutionsResponse, ResolvedRequest
from actors.coordinator.consumer.regexes import resolve
from actors.coordinator.group_types import GroupShard
from actors.coordinator.turn import Now
from actors.coordinator_kinds.kind import Surroundings
from actors.links.known_topics import TopicNames
from actors.links.relay import PAYLOADS, Kind

log = logging.getLogger(__name__)

_number = count(1).__next__
"""Numbers the questions of a process: a late answer is none to what the partition that it hosts next asks."""


class _Own:
    """The token of our own requests."""

    __slots__ = ()


class Resolving:
    """Resolves what one shard asks for. `connection_of` says from which connection a request has come."""

    def __init__(self, shard: GroupShard, around: Surroundings, connection_of: Callable[[object], int]) -> None:
        self._shard = shard
        self._around = around
        self._connection_of = connection_of
        self._matched: dict[int, ResolvedRequest] = {}
        """The matches, by the question which of them may be seen."""

    def ask(self, now: Now) -> None:
        """Ask the shard for what there is to resolve."""
        self._shard.handle(_Own(), ResolutionsRequest(), now)

    def resolve(self, found: ResolutionsResponse, now: Now) -> None:
        """The shard has answered. One that does not serve has nothing."""
        if found.error_code:
            return
        for each in found.resolutions:
            self._around.elsewhere(partial(resolve, each, _any_topic), partial(self._found, each))
        self.ask(now)

    def _found(self, asked: Resolution, found: ResolvedRequest | None, now: Now) -> None:
        if found is None or found.topics is None:
            text = "the expressions of group %s could not be resolved, or took too long"
            log.warning(text, asked.group_id, extra=self._around.here())
            self._give(ResolvedRequest(asked.group_id, None, asked.topics.version, asked.began_ms), now)
            return
        number = _number()
        self._matched[number] = found
        names = TopicNames(tuple(sorted(frozenset().union(*found.topics.values()))))
        self._around.say(Kind.MATCHED, names, self._connection_of(asked.token), number)

    def visible(self, number: int, payload: bytes, now: Now) -> None:
        """The broker says which of the topics the client may see; nothing if there is no such client any more."""
        found = self._matched.pop(number, None)
        if found is None or found.topics is None:
            return
        topics = None
        if payload:
            seen = frozenset(PAYLOADS.read(TopicNames, payload).names)
            topics = {regex: matched & seen for regex, matched in found.topics.items()}
        self._give(ResolvedRequest(found.group_id, topics, found.version, found.began_ms), now)

    def _give(self, resolved: ResolvedRequest, now: Now) -> None:
        self._shard.handle(_Own(), resolved, now)


def _any_topic(name: str) -> bool:
    return True
