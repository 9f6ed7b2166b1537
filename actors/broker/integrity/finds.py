"""Tells of batches that were found damaged: a line in the log, a counter, an event for the Monitor."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from actors.broker.context import BrokerContext
from actors.log.damage import Damage
from actors.log.data_dir import TopicPartition
from actors.runtime.logs import at

log = logging.getLogger(__name__)

EVENT: Final = "damage"
_A_TICK: Final = 100  # a disk that fails may damage very many


class Finds:
    """The damage that reads of this broker's logs have found since the last tick. `found` is called for each log."""

    def __init__(self, context: BrokerContext, found: Callable[[TopicPartition], None]) -> None:
        self._context = context
        self._found = found

    def tick(self) -> None:
        """Tell of each that is new."""
        found = self._context.data_dir.damaged
        for _ in range(min(len(found), _A_TICK)):
            key, damage = found.popleft()
            self._tell(*key, damage)
            self._found(key)

    def _tell(self, topic: str, index: int, damage: Damage) -> None:
        self._context.counts.integrity["damaged"] += 1
        log.error("%s-%d: %s", topic, index, damage, extra=at(topic, index))
        text = f"On broker {self._context.broker_id} {damage}."
        self._context.chronicle.note(EVENT, f"{topic}-{index}", text)
