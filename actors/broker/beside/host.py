"""All guests of a broker: made when an image says that it leads their partitions, and found by whoever asks them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from actors.broker.beside.guest import GuestKind, Place
from actors.broker.beside.seat import Seat
from actors.broker.beside.state_log import StateLog
from actors.broker.beside.writes import Done
from actors.broker.context import BrokerContext
from actors.broker.led import LedPartitions, LogAccessError
from actors.links.operations import CreateStatePartition, StatePartitionCreated
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata
from placement.pairs import Pair

log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str, int]
"""The name of a kind, a topic and a partition of it."""


class _Term(NamedTuple):
    """The conditions of a seat's life: it lasts while all of this stays."""

    place: Place
    state_index: int
    state_epoch: int


class Guests:
    """The guests of the kinds that a broker knows. Without kinds nothing is ever done here."""

    def __init__(self, context: BrokerContext, led: LedPartitions, kinds: Sequence[GuestKind]) -> None:
        self._context = context
        self._led = led
        self._kinds = {kind.name: kind for kind in kinds}
        self._by_topic = {kind.topic: kind for kind in kinds}
        self._seats: dict[Key, tuple[_Term, Seat]] = {}
        self._of_state: dict[tuple[str, int], Seat] = {}
        self._creating: set[Key] = set()
        for kind in kinds:
            context.commits.subscribe(kind.topic, partial(self._committed, kind.topic))

    # --- who asks ---

    def ask(self, kind: str, topic: str, index: int, question: Any, done: Done) -> None:
        """Ask the guest of a kind beside a partition that this broker leads. The first question has it made.

        `done` is called with NONE and the answer, at once if that depends on no record; or with Kafka's error.
        """
        try:
            self._led.leader_of(topic, index)
        except LogAccessError as error:
            done(error.code, None)
            return
        found = self._seats.get((kind, topic, index))
        if found is not None:
            found[1].ask(question, done)
            return
        self._ensure(self._kinds[kind], topic, index)
        done(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)

    def seats(self) -> list[tuple[Key, Seat]]:
        """All guests there are: the kind, topic and index of each, and its seat."""
        return [(key, seat) for key, (_, seat) in self._seats.items()]

    def _ensure(self, kind: GuestKind, topic: str, index: int) -> None:
        """Have a state partition made unless there is one. The next image shows the result."""
        key, metadata = (kind.name, topic, index), self._context.metadata
        topic_id = metadata.topics[topic].id
        paired = any(name == kind.topic for name, _ in metadata.pairs.states_of(topic_id, index))
        if not paired and key not in self._creating:
            self._creating.add(key)
            asked = CreateStatePartition(topic_id, index, kind.topic, kind.configs)
            self._context.controller.call(asked, partial(self._created, key))

    def _created(self, key: Key, result: StatePartitionCreated | None, error: str | None) -> None:
        self._creating.discard(key)
        if error is None and result is not None:
            error = result.error_message
        if error is not None:
            log.warning("nothing lives beside %s-%d yet, no state partition is made: %s", key[1], key[2], error)

    # --- what the broker tells ---

    def apply(self) -> None:
        """Take over an image: guests live beside what is led here, each as long as it is led at one epoch."""
        if not self._kinds:
            return
        wanted = dict(filter(None, map(self._term, self._context.metadata.pairs)))
        for key in [key for key, (term, _) in self._seats.items() if wanted.get(key) != term]:
            self._leave(key)
        for key, term in wanted.items():
            if key not in self._seats:
                self._take(key, term)

    def _term(self, pair: Pair) -> tuple[Key, _Term] | None:
        """The term of the guest of a pair; None if it does not live here."""
        metadata: ClusterMetadata = self._context.metadata
        kind, topic = self._by_topic.get(pair.state_topic), metadata.names.get(pair.topic_id)
        if kind is None or topic is None:
            return None
        data = metadata.partition(topic, pair.index)
        state = metadata.partition(pair.state_topic, pair.state_index)
        me = self._context.broker_id
        if data is None or state is None or data.leader != me or state.leader != me:
            return None
        place = Place(topic, pair.topic_id, pair.index, data.leader_epoch)
        return (kind.name, topic, pair.index), _Term(place, pair.state_index, state.leader_epoch)

    def _take(self, key: Key, term: _Term) -> None:
        context, place, kind = self._context, term.place, self._kinds[key[0]]
        state_log = StateLog(context, self._led, kind.topic, term.state_index, term.state_epoch)
        wake = partial(context.fetches.wake, place.topic, place.index)
        seat = Seat(kind, place, state_log, context, wake)
        self._seats[key] = term, seat
        self._of_state[kind.topic, term.state_index] = seat
        seat.load()

    def _leave(self, key: Key) -> None:
        term, seat = self._seats.pop(key)
        del self._of_state[seat.kind.topic, term.state_index]
        seat.end()

    def _committed(self, topic: str, index: int, watermark: int) -> None:
        """The high watermark of a state partition has moved."""
        seat = self._of_state.get((topic, index))
        if seat is not None:
            seat.watermark(watermark)

    def reload(self, topic: str, index: int) -> None:
        """A log was repaired: records may be lost, or be there though they were refused."""
        seat = self._of_state.get((topic, index))
        if seat is not None:
            seat.load()

    def close(self) -> None:
        """The broker stops: nobody is answered any more."""
        for key in list(self._seats):
            self._leave(key)
