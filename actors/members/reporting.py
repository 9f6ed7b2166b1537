"""The pace of a member's reports: several a second, and one at once for news that must be out before it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

REPORT_SECONDS: Final = 0.2


class Reporting:
    """The pace of a member's reports, for the threads that send them, one for each connection."""

    def __init__(self, interval_s: float = REPORT_SECONDS) -> None:
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._asked = 0
        self._sent: dict[int, int] = {}  # by thread, the `asked` that its last report came after
        self._ended = False

    def run(self, send: Callable[[], None]) -> None:
        """Send reports until `end`. Raises what `send` does."""
        me, asked = threading.get_ident(), 0
        with self._changed:
            self._sent[me] = 0
        try:
            while not self._ended:
                send()
                asked = self._pause(me, asked)
        finally:
            with self._changed:
                del self._sent[me]
                self._changed.notify_all()

    def _pause(self, me: int, asked: int) -> int:
        """Note that what was asked for is sent, and wait for what is asked next."""
        with self._changed:
            self._sent[me] = asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or self._asked > asked, self._interval_s)
            return self._asked

    def now(self, timeout_s: float) -> None:
        """Return when every thread has sent a report that was made after this call, or cannot within `timeout_s`."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or all(n >= mine for n in self._sent.values()), timeout_s)

    def end(self) -> None:
        """Have `run` return."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
