"""One regular expression of RE2's dialect, within bounds, because all groups of a shard pay for it.

RE2 matches in linear time, but it compiles in the shard's turn, and holds the interpreter's lock meanwhile. The classes
of Unicode cost most of it: thirty kilobytes of them take seconds. Names of topics have no use for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import re2

CLASSES_MAX: Final = 100
"""The most classes of Unicode, such as `\\pL`, that an expression may have."""
_MEMORY_BYTES: Final = 1 << 20
"""The most memory that a compiled expression may take. RE2 refuses one that would take more."""

IsLate = Callable[[], bool]
"""True if the work has taken too long, or nobody needs it any more."""


def error_of(regex: str) -> str:
    """The reason why an expression cannot be used; empty if it can."""
    if regex.count("\\p") + regex.count("\\P") > CLASSES_MAX:
        return f"it has more than {CLASSES_MAX} classes of Unicode"
    try:
        re2.compile(regex, options=_options())
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        return (reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) or "RE2 refuses it"
    return ""


def matched(regex: str, names: Iterable[str], is_late: IsLate) -> frozenset[str] | None:
    """The names that an expression matches as a whole; None if that takes too long."""
    if error_of(regex):  # an older build took it
        return frozenset()
    matches = re2.compile(regex, options=_options()).fullmatch
    found = []
    for name in names:
        if is_late():
            return None
        if matches(name) is not None:
            found.append(name)
    return frozenset(found)


def forget_compiled() -> None:
    """Have RE2 keep nothing of what was compiled: it would keep a hundred expressions."""
    re2.purge()


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    return options
