"""The reason why a consumer is given no records: brokers are silent, or a topic is missing. A poll warns once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from actors.client.net.network import Network
from actors.wire.errors import ErrorCode as Code

log = logging.getLogger(__name__)

GRACE_MS: Final = 3_000
"""So long an outage is the clients' own business: a broker's restart, or a topic that is just being created."""


class Hindrance:
    """Tells by metadata alone what keeps records away. `wanted` are the topics it reads or subscribes to."""

    def __init__(
        self, network: Network, wanted: Callable[[], Collection[str]], bootstrap_servers: object, *, creates: bool
    ) -> None:
        self._network = network
        self._wanted = wanted
        self._servers = bootstrap_servers
        self._creates = creates
        self._absent_since_ms: int | None = None
        self._warned = ""

    def text(self, *, grace_ms: int = GRACE_MS) -> str | None:
        """The fault that has lasted for `grace_ms` now, and which setting governs it; None while all is well."""
        now_ms = self._network.now_ms()
        if self._network.outage.lasts_ms(now_ms) >= max(grace_ms, 1):
            return self._network.outage.reason or self._silent(now_ms)
        absent = self._absent()
        if not absent:
            self._absent_since_ms = None
            return None
        if self._absent_since_ms is None:
            self._absent_since_ms = now_ms
        return self._missing(absent) if now_ms - self._absent_since_ms >= grace_ms else None

    def warn(self, group_id: str | None) -> None:
        """Say what is wrong, once for each thing."""
        text = self.text()
        if text is None:
            self._warned = ""
        elif _kind(text) != self._warned:
            self._warned = _kind(text)
            log.warning("%s: no records: %s", f"group {group_id}" if group_id else "a consumer", text)

    def _absent(self) -> list[str]:
        known = self._network.cluster.topics
        wanted = sorted(self._wanted())
        return [t for t in wanted if t in known and known[t].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION]

    def _missing(self, absent: list[str]) -> str:
        why = "the brokers do not create it" if self._creates else "allow_auto_create_topics=False"
        return f"there is no topic {', '.join(map(repr, absent))} ({why}): create it, or mend its name"

    def _silent(self, now_ms: int) -> str:
        seconds = self._network.outage.lasts_ms(now_ms) // 1000
        return f"no broker has answered for {seconds} s; check bootstrap_servers ({self._servers})"


def _kind(text: str) -> str:
    """The text without what changes from one attempt to the next."""
    return text.partition("(")[0].rstrip("0123456789 s")
