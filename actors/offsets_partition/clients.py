"""What a shard's process knows of one client, and how it reads that client's requests."""

from __future__ import annotations

from actors.coordinator.turn import Request
from actors.group_api import MODULES, Topics, decode
from actors.group_api.commits import Commits
from actors.group_api.heartbeats import Heartbeats
from actors.wire.api_keys import ApiKey
from actors.wire.framing import RequestHeader, decode_request_header
from actors.wire.messages import ApiMessage

# How the frames of these requests begin.
_HEARTBEAT = ApiKey.HEARTBEAT.to_bytes(2, "big")
_OFFSET_COMMIT = ApiKey.OFFSET_COMMIT.to_bytes(2, "big")
_OFFSET_FETCH = ApiKey.OFFSET_FETCH.to_bytes(2, "big")


class Client:
    """A client's connection to the broker. `many`: the broker's own requests, made for many clients."""

    __slots__ = ("_commits", "_heartbeats", "after_commits", "host", "many", "open_commits")

    def __init__(self, host: str, *, many: bool = False) -> None:
        self.host = host
        self.many = many
        self._heartbeats = Heartbeats()
        self._commits = Commits()
        self.open_commits = 0
        """Its commits that are not answered yet."""
        self.after_commits: list[tuple[int, bytes]] = []
        """Its offset fetches (slot, frame) that wait for them."""

    def read(self, frame: bytes, topics: Topics) -> tuple[RequestHeader, ApiMessage, Request | None]:
        """A request's header, what its answer is made of, and what the coordinator is asked, if anything.

        Raises WireError if it is malformed or of a version not served.
        """
        if frame.startswith(_HEARTBEAT):
            return self._heartbeats.read(frame)
        if frame.startswith(_OFFSET_COMMIT):
            return self._commits.read(frame, topics)
        header = decode_request_header(frame)
        message = decode(header, frame)
        return header, message, MODULES[header.api_key].parse(header, message, self.host, topics)

    def has_to_wait(self, frame: bytes) -> bool:
        """A client that asks after it has committed, without waiting, expects to see what it committed.

        The broker does not: some client's commit may always be open, and others would never be answered.
        """
        return self.open_commits > 0 and not self.many and frame.startswith(_OFFSET_FETCH)
