"""The topics a shard knows of. Commits are checked against them, and topic ids are turned into names."""

from __future__ import annotations

from collections.abc import Iterable


class Topics:
    """Topic names, ids and partition counts as of the last image."""

    def __init__(self, rows: Iterable[tuple[str, bytes, int]] = ()) -> None:
        self.counts: dict[str, int] = {}
        self.ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        for name, topic_id, count in rows:
            self.counts[name] = count
            self.ids[name] = topic_id
            self.names[topic_id] = name

    def deleted_since(self, older: Topics) -> frozenset[str]:
        """The topics of `older` that do not exist any more, or were deleted and created again."""
        return frozenset(name for name, topic_id in older.ids.items() if self.ids.get(name) != topic_id)
