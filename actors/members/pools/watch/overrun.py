"""The time that the user's code may run in a member: the handler and its hooks, and the start. Sans-IO."""

from __future__ import annotations

from typing import Final

from actors.links.member import MemberReport

START_SECONDS: Final = 120.0
"""The time that a process may take to start, once it has a node; and `setup`, which runs before the member polls."""


def overrun(report: MemberReport, max_poll_interval_ms: int, silent_ms: float = 0.0) -> str:
    """In words, what has been running for longer than it may, silence since the report included; "" if nothing has."""
    ran_ms = int(report.handling_ms + silent_ms)
    starting = report.state == "Starting"
    if ran_ms <= (max(max_poll_interval_ms, int(START_SECONDS * 1000)) if starting else max_poll_interval_ms):
        return ""
    setting = f"max_poll_interval_ms={max_poll_interval_ms}"
    limit = f"{START_SECONDS:.0f} s and than {setting}" if starting else setting
    what = f"its handler's {report.in_hook}" if report.in_hook else "its handler"
    return f"{what} has been running for {ran_ms} ms, longer than {limit}"
