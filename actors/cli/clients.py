"""The clients with which `coterie produce` and `coterie consume` write and read records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.cli.command_config import client_settings

if TYPE_CHECKING:
    from actors.client import Consumer, Producer

API_TIMEOUT_MS: Final = 30_000
"""The longest time that `coterie consume` waits for a broker's answer."""


class Clients:
    """Makes them. A command line that was called with another (`obj`) has that make them."""

    def producer(self, bootstrap_server: str, timeout_ms: int, acks: str, compression_type: str) -> Producer:
        """A producer whose records are delivered within `timeout_ms`, or fail. Raises what `Producer` raises."""
        from actors.client import Producer

        return Producer(
            bootstrap_servers=bootstrap_server,
            **{"client_id": "coterie-produce", **client_settings()},
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=compression_type,
            max_block_ms=timeout_ms,
            request_timeout_ms=max(timeout_ms // 2, 1),  # so that a request without an answer is repeated once
            delivery_timeout_ms=timeout_ms,
            allow_auto_create_topics=False,
            linger_ms=0,  # typed lines are sent at once; lines of a file fill batches without waiting
        )

    def consumer(self, bootstrap_server: str, group: str | None, from_beginning: bool) -> Consumer:
        """A consumer of the group, or of none, that commits when it is told to. Raises what `Consumer` raises."""
        from actors.client import Consumer
        from actors.client.by_default import by_default

        return Consumer(
            bootstrap_servers=bootstrap_server,
            **{"client_id": "coterie-consume", **by_default(client_settings())},
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest" if from_beginning else "latest",
            allow_auto_create_topics=False,
            default_api_timeout_ms=API_TIMEOUT_MS,
        )
