"""Since when a client waits for metadata in vain, and why. Written on the event loop, read from any thread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from actors.client.errors import NoBrokersAvailable

_NAMED_MAX: Final = 3


@dataclass(slots=True)
class Outage:
    """`since_ms` (monotonic) is when metadata was first asked for that has not come yet; None while it comes.

    `reason` is why the last attempt failed; empty while the first one is under way.
    """

    since_ms: int | None = None
    reason: str = ""

    def asked(self, now_ms: int) -> None:
        """Metadata is asked for."""
        if self.since_ms is None:
            self.since_ms = now_ms

    def failed(self, reason: str) -> None:
        """It was not given. It is asked for again."""
        self.reason = reason

    def over(self) -> None:
        """It has come."""
        self.since_ms = None
        self.reason = ""

    def text(self, bootstrap: Iterable[tuple[str, int]]) -> str:
        """The reason why no broker has answered, for the text of a timeout; it names the addresses that were tried."""
        return (
            self.reason or f"no answer from bootstrap_servers={','.join(f'{host}:{port}' for host, port in bootstrap)}"
        )

    def because(self) -> str:
        """The end of a timeout's text: why no broker answers; empty while one does."""
        return f": {self.reason}" if self.reason else ""

    def lasts_ms(self, now_ms: int) -> int:
        """The time for which metadata has been waited for; 0 while it comes."""
        since = self.since_ms
        return 0 if since is None else now_ms - since


def unreachable(troubles: Iterable[str]) -> str:
    """The text for brokers of which none can be reached, with the first few causes; empty if no cause is known."""
    known = list(dict.fromkeys(filter(None, troubles)))
    more = ["..."] if len(known) > _NAMED_MAX else []
    return f"{NoBrokersAvailable.hint} ({'; '.join([*known[:_NAMED_MAX], *more])})" if known else ""
