"""A client's connection between a transport and a server that note what comes to them. Holds no tests."""

from __future__ import annotations

from typing import Any

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.links.unauthenticated import FailureLog

HEAD = bytes.fromhex("0012 0000 00000001 ffff")  # ApiVersions v0, correlation id 1, no client id


class Transport:
    """A socket whose other end reads when told to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.written: list[bytes] = []
        self.reading = True
        self.aborted = False
        self.high = 0

    def write(self, data: bytes) -> None:
        assert not self.aborted
        self.written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def abort(self) -> None:
        self.aborted = True
        if self.connection.transport is not None:
            self.connection.connection_lost(None)

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high = high

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.7", 5555)

    def get_write_buffer_size(self) -> int:
        return 0


class Server:
    """Notes each frame; `react` says what to do with one."""

    socket_request_max_bytes = 10_000

    def __init__(self) -> None:
        self.failures = FailureLog(lambda: 0.0)
        self.frames: list[bytes] = []
        self.slots: list[Slot] = []
        self.gone: list[list[Slot]] = []
        self.accepts = True
        self.react: Any = None

    def on_connect(self, connection: Connection) -> bool:
        return self.accepts

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        self.frames.append(data[start:end])
        self.slots.append(connection.slots.open(len(self.slots), 18, 0, len(self.slots)))
        if self.react is not None:
            self.react(connection, data[start:end])

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        self.gone.append(unanswered)


def connect(server: Server | None = None) -> tuple[Connection, Server, Transport]:
    server = server or Server()
    connection = Connection(server, 1, 0.0)
    transport = Transport(connection)
    made: Any = transport
    connection.connection_made(made)
    return connection, server, transport


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(text: str | bytes) -> bytes:
    return framed(HEAD + (text if isinstance(text, bytes) else text.encode()))


def bodies(server: Server) -> list[bytes]:
    return [frame[len(HEAD) :] for frame in server.frames]
