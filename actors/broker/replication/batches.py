"""Sound batches for brokers whose own are damaged: asked for and given over the links between leaders and followers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from actors.broker.context import BrokerContext
from actors.links.replication import FoundBatches, WantBatches
from actors.log.mending import sound_batches
from actors.records.errors import LogError

_ANSWER_BYTES: Final = 1 << 20

Asked: TypeAlias = tuple[int, bytes, int, int, int]
"""The broker that was asked, the topic's id, the partition's index, and the offsets."""


class Ways(Protocol):
    """The connections to other brokers."""

    def want(self, broker: int, want: WantBatches) -> bool:
        """Ask a broker for batches. Returns True if that was possible."""


class BatchExchange:
    """Gives other brokers what they ask for, and asks them. An answer that does not come is nobody's loss here."""

    def __init__(self, context: BrokerContext, ways: Ways) -> None:
        self._context = context
        self._ways = ways
        self._asked: dict[Asked, Callable[[bytes], None]] = {}

    def ask(self, broker: int, want: WantBatches, done: Callable[[bytes], None]) -> bool:
        """Ask a broker. Returns True if that was possible; then `done` gets the batches, b"" if there are none.

        Asked again for the same, only the last `done` is called.
        """
        if not self._ways.want(broker, want):
            return False
        self._asked[broker, want.topic_id, want.index, want.first, want.last] = done
        return True

    def found(self, broker: int, found: FoundBatches) -> None:
        """A broker has answered."""
        done = self._asked.pop((broker, found.topic_id, found.index, found.first, found.last), None)
        if done is not None:
            done(found.records)

    def wanted(self, want: WantBatches) -> FoundBatches:
        """The answer to a broker: batches that a read of our log finds sound."""
        return FoundBatches(want.topic_id, want.index, want.first, want.last, self._batches(want))

    def _batches(self, want: WantBatches) -> bytes:
        context = self._context
        key = (context.metadata.names.get(want.topic_id, ""), want.index)
        found = context.data_dir.get(*key)
        if found is None or context.data_dir.topic_ids[key] != want.topic_id:
            return b""
        try:
            data, _ = found.read_with_end(want.first, _ANSWER_BYTES)
        except (LogError, OSError):
            return b""  # ours are damaged, too, or gone
        return sound_batches(data, want.first, want.last)
