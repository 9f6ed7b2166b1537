"""Requests on their way to shards, and answers on their way back into their slots.

Each request to a shard comes through here, and its answer too: so little is done for one, in few calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.broker.coordinators.link import Question, ShardLink
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.relay import Kind, RelayProtocol
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import decode_request_header

log = logging.getLogger(__name__)

_REQUEST = Kind.REQUEST
_RESPONSE = Kind.RESPONSE


class Relaying:
    """The relay to the shards of all kinds."""

    def __init__(self, links: Mapping[RelayProtocol, ShardLink], failed: Callable[[int], None]) -> None:
        self._failed = failed  # told the API key of a client's request that is answered here, with an error
        self._links = links
        self._dirty: dict[Connection, None] = {}  # connections that answers were finished for, in that order
        self._holding: dict[ShardLink, list[Connection]] = {}  # by shards whose queue is full

    # --- to shards ---

    def send(self, link: ShardLink, connection: Connection, slot: Slot, frame: bytes) -> None:
        """Pass a client's request on to a shard."""
        protocol = link.protocol
        if connection.id not in link.opened:
            link.opened[connection.id] = connection
            protocol.send(Kind.OPEN, connection.id, 0, connection.peer.encode())
        link.sent += 1
        link.pending[slot.id] = (slot, frame)
        protocol.send(_REQUEST, connection.id, slot.id, frame)
        held = self._holding.get(link)
        if held is not None and connection not in held:
            held.append(connection)
            connection.hold()

    def ask(self, link: ShardLink, number: int, question: Question, frame: bytes) -> None:
        """Send a request of the broker's own, by a number as a slot has."""
        link.sent += question.rouses
        link.pending[number] = (question, frame)
        link.protocol.send(_REQUEST, 0, number, frame)

    def ask_for(self, link: ShardLink, slot: Slot, question: Question, frame: bytes) -> None:
        """Send a request of the broker's own by the slot that it is for: as soon as its client goes, it is dropped."""
        connection = slot.queue.connection
        if connection is None or connection.transport is None:
            return
        if connection.id not in link.opened:
            link.opened[connection.id] = connection
            link.protocol.send(Kind.OPEN, connection.id, 0, connection.peer.encode())
        link.sent += question.rouses
        link.pending[slot.id] = (question, frame)
        link.protocol.send(_REQUEST, connection.id, slot.id, frame)

    def disconnected(self, connection: Connection, unanswered: list[Slot], links: Iterable[ShardLink]) -> None:
        """A client has gone: its shards drop its open requests."""
        for link in links:
            if connection.id in link.opened:
                del link.opened[connection.id]
                link.protocol.send(Kind.CLOSE, connection.id)
                for slot in unanswered:
                    link.pending.pop(slot.id, None)

    def backlog(self, protocol: RelayProtocol, full: bool) -> None:
        """A shard's queue is full, or has drained: clients that send to it are not read meanwhile."""
        link = self._links[protocol]
        if full:
            self._holding.setdefault(link, [])
        else:
            self._release(link)

    def _release(self, link: ShardLink) -> None:
        for connection in self._holding.pop(link, ()):
            connection.release()

    # --- from shards ---

    def received(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        """Handle a message from a shard."""
        link = self._links[protocol]
        if kind != _RESPONSE:
            handle = link.handlers.get(kind)
            if handle is not None:
                handle(link, a, b, payload)
            else:
                protocol.refuse(kind)
            return
        waiter = link.pending.pop(b, None)
        if waiter is None:
            return  # the client has gone
        slot = waiter[0]
        if isinstance(slot, Slot):
            if not payload:  # the shard could not make sense of it
                slot.queue.connection.close("a malformed group request")
                return
            slot.finish(payload)
            self._dirty[slot.queue.connection] = None
        else:
            _tell(slot, payload)

    def answer(self, kind: CoordinatorKind, waiter: Slot | Question, frame: bytes, code: ErrorCode) -> None:
        """Answer a request instead of a shard, with an error. A malformed one closes its connection."""
        try:
            answer = kind.requests.error_answer(decode_request_header(frame), frame, code)
        except WireError as error:
            if isinstance(waiter, Question):
                raise
            waiter.queue.connection.close(str(error))
            return
        if isinstance(waiter, Question):
            _tell(waiter, answer)
        else:
            self._failed(waiter.api_key)
            waiter.finish(answer)
            self._dirty[waiter.queue.connection] = None

    def give_up(self, link: ShardLink, owed: Mapping[int, tuple[Slot | Question, bytes]]) -> None:
        """A shard does not serve any more: answer its open requests, and read from its clients again."""
        if link.kind is not None:
            for waiter, frame in owed.values():
                self.answer(link.kind, waiter, frame, ErrorCode.NOT_COORDINATOR)
        self._release(link)
        self.flush()

    def flush(self) -> None:
        """Write the answers that were finished."""
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()


def _tell(question: Question, frame: bytes) -> None:
    """Give an answer to the part of the broker that asked. If that fails, the link to the shard stays all the same."""
    try:
        question.done(frame)
    except Exception:  # a bug of the part that asked: other groups use this link
        log.exception("an answer to %s could not be used", question.name)
