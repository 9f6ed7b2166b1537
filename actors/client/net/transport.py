"""The way to a socket, as a protocol of the event loop uses it, and what there is before it."""

from __future__ import annotations

from typing import Final, Protocol

from actors.client.errors import KafkaConnectionError


class Transport(Protocol):
    """The part of asyncio's transports that a client needs."""

    def write(self, data: bytes) -> None:
        """Send data, or buffer it."""

    def get_write_buffer_size(self) -> int:
        """The number of bytes that have not left this process."""

    def close(self) -> None:
        """Close once the buffer is empty."""

    def abort(self) -> None:
        """Close at once."""


class NotConnected:
    """There is no socket yet: nothing can be sent, and there is nothing to close."""

    def write(self, data: bytes) -> None:
        raise KafkaConnectionError

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


NOT_CONNECTED: Final = NotConnected()
