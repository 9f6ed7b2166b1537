"""The order of answers on one connection: a request takes a slot, a finished slot waits for those before it.

No socket here: connection.py has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from actors.wire.framing import Part


class Slot:
    """One request that wants an answer."""

    __slots__ = ("answer", "api_key", "correlation_id", "id", "queue", "version")

    def __init__(self, queue: SlotQueue, slot_id: int, api_key: int, version: int, correlation_id: int) -> None:
        self.queue = queue
        self.id = slot_id
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.answer: bytes | list[Part] | None = None

    def finish(self, answer: bytes | list[Part]) -> None:
        """Set the whole response frame, which may be in parts; it leaves once those before it have."""
        self.answer = answer
        self.queue.ready_bytes += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))


class SlotQueue:
    """The open slots of one connection, in request order."""

    __slots__ = ("_open", "_timed", "connection", "make", "ready_bytes")

    def __init__(self, connection: Any = None) -> None:
        self.connection = connection
        self.ready_bytes = 0
        """Bytes of answers that are finished and not taken yet."""
        self.make: Callable[[SlotQueue, int, int, int, int], Slot] = Slot
        """The maker of the next slot."""
        self._open: deque[Slot] = deque()
        self._timed: list[tuple[Slot, Callable[[], None]]] = []  # few: a sample

    def __len__(self) -> int:
        return len(self._open)

    def open(self, slot_id: int, api_key: int, version: int, correlation_id: int) -> Slot:
        """Add a slot at the end."""
        slot = self.make(self, slot_id, api_key, version, correlation_id)
        self._open.append(slot)
        return slot

    def time_last(self, api_key: int, correlation_id: int, left: Callable[[], None]) -> None:
        """Call `left` when the answer to this request, which came last, is taken; never if nobody answers it."""
        last = self._open[-1] if self._open else None
        if last is not None and last.api_key == api_key and last.correlation_id == correlation_id:
            self._timed.append((last, left))

    def take(self) -> list[Part]:
        """Remove and return the answers that may leave now, in request order; those in parts, part by part."""
        out: list[Part] = []
        waiting = self._open
        while waiting:
            answer = waiting[0].answer
            if answer is None:
                break
            if isinstance(answer, bytes):
                out.append(answer)
                self.ready_bytes -= len(answer)
            else:
                out += answer
                self.ready_bytes -= sum(map(len, answer))
            waiting.popleft()
        if self._timed:
            self._tell_timed()
        return out

    def _tell_timed(self) -> None:
        timed, self._timed = self._timed, []
        for slot, left in timed:
            if slot.answer is None or slot in self._open:
                self._timed.append((slot, left))
            else:
                left()

    def clear(self) -> list[Slot]:
        """Forget all slots, because the connection has gone. Those that had no answer yet."""
        unanswered = [slot for slot in self._open if slot.answer is None]
        self._open.clear()
        self._timed.clear()
        self.ready_bytes = 0
        if not unanswered:  # nobody will ask for it, and the two need not wait for the collector
            self.connection = None
        return unanswered
