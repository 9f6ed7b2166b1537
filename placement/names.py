"""The rule for topics' names."""

from __future__ import annotations

import re

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


def topic_name_error(name: str) -> str | None:
    """Kafka's reason for refusing this topic name, or None if it is legal."""
    if not name:
        return "a topic name cannot be empty"
    if name in (".", ".."):
        return f"a topic cannot be called {name!r}"
    if not _LEGAL_NAME.match(name):
        return (
            f"topic name {name!r} is illegal: 1 to 249 characters out of letters, digits, '.', '_' and '-' are allowed"
        )
    return None
