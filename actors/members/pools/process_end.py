"""The end of a member's process, as its pool sees it: the end of its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.members.member_link import MemberClient

_GONE_SECONDS: Final = 30.0  # as long as a machine may be silent


def await_end(link: MemberClient, monotonic: Callable[[], float]) -> None:
    """Wait until a killed process has ended: until then it may handle what its successor begins with.

    Its connection ends with it, or is silent when its machine is gone.
    """
    deadline = monotonic() + _GONE_SECONDS
    link.limit_silence(_GONE_SECONDS)
    for _ in link.reports():
        if monotonic() > deadline:
            return
