"""Has damaged batches replaced by those of another replica that is in sync.

A leader asks its followers in sync, one after the other, a follower asks its leader. Batches that none of them has are
reported as damaged everywhere, and asked for again now and then: a replica that is away may have them. If this broker's
disk does not take what it is given, another replica is to lead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from actors.broker.context import BrokerContext
from actors.broker.integrity.finds import EVENT
from actors.links.replication import WantBatches
from actors.log.damage import Damage
from actors.log.data_dir import TopicPartition
from actors.log.errors import StorageError
from actors.log.mending import NotFittingError
from actors.log.partition_log import PartitionLog
from actors.log.segment import Segment
from actors.runtime.logs import at

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 5.0
_UNREACHED_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 30.0


class Exchange(Protocol):
    """The way to ask other brokers for batches."""

    def ask(self, broker: int, want: WantBatches, done: Callable[[bytes], None]) -> bool: ...


@dataclass(slots=True)
class _Patient:
    """A log with damaged batches."""

    next_at: float = 0.0
    """The time at which a broker is asked next, unless an answer comes before (loop's clock, seconds)."""
    refused: set[int] = field(default_factory=set)
    """Brokers that do not have what is damaged, or have not answered."""
    again_at: dict[Damage, float] = field(default_factory=dict)
    """The times at which damage that no broker in sync can mend for now is asked for again."""
    reported: set[Damage] = field(default_factory=set)
    """The damage that was said to be everywhere."""


class Mending:
    """Mends the logs of one broker, a damage of each at a time. `failed` has another replica lead, if one may."""

    def __init__(self, context: BrokerContext, exchange: Exchange, failed: Callable[[str, int], None]) -> None:
        self._context = context
        self._exchange = exchange
        self._failed = failed
        self._patients: dict[TopicPartition, _Patient] = {}

    def note(self, key: TopicPartition) -> None:
        """Damage was found in a log."""
        self._patients.setdefault(key, _Patient())

    def tick(self) -> None:
        """Ask for what is due."""
        now = self._context.loop.time()
        for key, patient in list(self._patients.items()):
            damaged = self._context.data_dir.get(*key)
            if damaged is None or not damaged.damages:
                del self._patients[key]
                self._context.beyond_mending -= patient.reported
            elif now >= patient.next_at:
                self._ask(key, damaged, patient)

    def _ask(self, key: TopicPartition, damaged: PartitionLog, patient: _Patient) -> None:
        """Ask the next broker for the first damage that is not to wait."""
        now, start = self._context.loop.time(), damaged.log_start_offset
        due = [
            each
            for each in damaged.damages
            if each[1].last_offset >= start and now >= patient.again_at.get(each[1], 0.0)
        ]
        first = min(due, key=lambda each: each[1].first_offset, default=None)
        partition, topic = self._context.metadata.partition(*key), self._context.metadata.topics.get(key[0])
        if first is None or partition is None or topic is None:
            return
        segment, damage = first
        want = WantBatches(topic.id, key[1], damage.first_offset, damage.last_offset)
        me = self._context.broker_id
        others = [each for each in partition.isr if each != me] if partition.leader == me else [partition.leader]
        left = [each for each in others if each not in patient.refused]
        for broker in left:
            done = partial(self._answered, key, damaged, segment, damage, broker)
            if self._exchange.ask(broker, want, done):
                patient.refused.add(broker)  # unless it gives what it has
                patient.next_at = self._context.loop.time() + _ANSWER_SECONDS
                return
        if left:
            patient.next_at = self._context.loop.time() + _UNREACHED_SECONDS
        else:
            self._give_up(key, damage, patient)

    def _give_up(self, key: TopicPartition, damage: Damage, patient: _Patient) -> None:
        """Nobody has it for now. Another damage of the log is asked for meanwhile."""
        patient.refused.clear()
        patient.again_at[damage] = self._context.loop.time() + _AGAIN_SECONDS
        self._context.beyond_mending.add(damage)
        if damage not in patient.reported:
            patient.reported.add(damage)
            text = f"No replica in sync has these batches for broker {self._context.broker_id}: {damage}."
            log.error("%s-%d: %s", *key, text, extra=at(*key))
            self._context.chronicle.note(EVENT, f"{key[0]}-{key[1]}", text)

    def _answered(
        self, key: TopicPartition, damaged: PartitionLog, segment: Segment, damage: Damage, broker: int, records: bytes
    ) -> None:
        patient = self._patients.get(key)
        if patient is None or self._context.data_dir.get(*key) is not damaged:
            return
        patient.next_at = 0.0
        try:
            left = damaged.mending.mend(segment, damage, records) if records else damage
        except NotFittingError as error:
            log.error("%s-%d: broker %d has %s", *key, broker, error, extra=at(*key, peer=f"broker {broker}"))
            if damage not in patient.reported:
                patient.reported.add(damage)
                self._failed(*key)
            return
        except StorageError as error:
            log.error("%s-%d: %s", *key, error, extra=at(*key))
            patient.next_at = self._context.loop.time() + _AGAIN_SECONDS
            self._failed(*key)
            return
        if left is damage:
            return
        patient.refused.clear()
        self._context.beyond_mending.discard(damage)
        self._context.loop.run_in_executor(None, self._flush, segment)
        if left is None:
            self._mended(key, damage, broker)

    def _mended(self, key: TopicPartition, damage: Damage, broker: int) -> None:
        self._context.counts.integrity["mended"] += 1
        offsets = f"offsets {damage.first_offset} to {damage.last_offset}"
        text = f"Broker {self._context.broker_id} has {offsets} again, from broker {broker}."
        log.warning("%s-%d: %s", *key, text, extra=at(*key, peer=f"broker {broker}"))
        self._context.chronicle.note(EVENT, f"{key[0]}-{key[1]}", text)
        self._context.fetches.wake(*key)

    def _flush(self, segment: Segment) -> None:
        try:
            self._context.data_dir.writer.fsync_file(segment.path)
        except OSError as error:  # a next start finds the damage again if the disk has not got it
            log.error("%s is mended, but not flushed: %s", segment.path, error)
