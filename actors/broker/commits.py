"""Moves of high watermarks: replication tells them here, and the subscriber of the topic hears of them."""

from __future__ import annotations

from collections.abc import Callable

Heard = Callable[[int, int], None]
"""Called with a partition and its high watermark."""


class Commits:
    """The subscribers of topics' high watermarks."""

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
