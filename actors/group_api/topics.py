"""The topics a shard knows of. Commits are checked against them, and topic ids are turned into names."""

from __future__ import annotations

from collections.abc import Iterable


class Topics:
    """Topic names, ids and partition counts as of the last image."""

    def __init__(self, rows: Iterable[tuple[str, bytes, int]] = ()) -> None:
        self.counts: dict[str, int] = {}
        self.ends: dict[str, bytes] = {}
        """The counts again, in four bytes. The index of a partition that exists comes before, in the order of bytes."""
        self.ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        for name, topic_id, count in rows:
            self.add(name, topic_id, count)

    def add(self, name: str, topic_id: bytes, count: int) -> None:
        """There is this topic; it may be one whose id is not known."""
        self.counts[name] = count
        self.ends[name] = count.to_bytes(4, "big")
        if topic_id:
            self.ids[name] = topic_id
            self.names[topic_id] = name

    def deleted_since(self, older: Topics) -> frozenset[str]:
        """The topics of `older` that do not exist any more, or were deleted and created again."""
        return frozenset(name for name, topic_id in older.ids.items() if self.ids.get(name) != topic_id)
