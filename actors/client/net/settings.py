"""The settings that the connections of a client are made with."""

from __future__ import annotations

from dataclasses import dataclass

from actors.client.net.security import NO_SECURITY, Security


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The bootstrap addresses, and timeouts and backoffs in milliseconds."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "coterie"
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    max_in_flight: int = 100
    allow_auto_create_topics: bool = True
    create_only_held: bool = False
    """With it, brokers may create topics only while somebody holds some (`Network.holding`)."""
    hang_ups_max: int | None = None
    """The number of times in a row that a broker may hang up on the first requests, until it is taken to speak another
    protocol.

    Only of a client that has never been answered; None: as often as it likes.
    """
    security: Security = NO_SECURITY


def parse_bootstrap(servers: str | list[str] | tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The (host, port) pairs of `"a:1,b:2"` or of a list of such texts; IPv6 hosts in brackets. Raises ValueError."""
    entries = servers.split(",") if isinstance(servers, str) else [e for s in servers for e in s.split(",")]
    found = []
    for entry in (e.strip() for e in entries):
        if not entry:
            continue
        host, _, port = entry.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"bootstrap_servers must be HOST:PORT,…, got {entry!r}")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("bootstrap_servers is empty")
    return tuple(found)
