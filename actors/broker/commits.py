"""News of high watermarks: replication tells what has committed, whoever has subscribed to the topic hears it."""

from __future__ import annotations

from collections.abc import Callable

Heard = Callable[[int, int], None]
"""Called with a partition and its high watermark."""


class Commits:
    """Who hears of which topic's commits."""

    def __init__(self) -> None:
        self._subscribers: dict[str, Heard] = {}

    def subscribe(self, topic: str, heard: Heard) -> None:
        """Have `heard` called for each partition of `topic` whose watermark moves; one subscriber a topic."""
        self._subscribers[topic] = heard

    def tell(self, topic: str, index: int, watermark: int) -> None:
        """All below `watermark` has committed."""
        heard = self._subscribers.get(topic)
        if heard is not None:
            heard(index, watermark)
