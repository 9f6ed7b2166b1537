"""Looks that have found nothing, for tests of the Monitor's history on disk."""

from __future__ import annotations

from actors.monitor.history import History

_WRITES = 60
"""Of so many writes one looks at age and size."""


def forgets(history: History, now_ms: int) -> None:
    """Let looks without findings go on until what is too old, or too much, is gone."""
    for _ in range(_WRITES):
        assert history.write(now_ms, ())
