"""A Monitor's link to the controller: its questions, and the questions to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from actors.links.calls import Calls
from actors.links.connection import ControlProtocol, Message, reach_controller
from actors.links.control import Answer, Call, ControlMessage, Failed
from actors.links.observations import Watch, Watching
from actors.links.operations import Operation, Result
from actors.links.secret import Secrets
from actors.runtime.environment import Chance
from actors.settings import LinkStores

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

_ANSWER_SECONDS: Final = 10.0


class ClusterLink:
    """One connection to a controller. `answer` is given the questions that come over it; what it raises is an answer.

    `ended` is set when the connection has ended.
    """

    def __init__(self, answer: Callable[[Operation[Result]], Awaitable[Result]]) -> None:
        self._answer = answer
        self._protocol: ControlProtocol | None = None
        self._calls = Calls(self._send)
        self._answering: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()

    async def connect(
        self, host: str, port: int, secrets: Secrets, chance: Chance, pid: int, *, tls: LinkStores | None
    ) -> Watching:
        """Connect, and say that this is the Monitor. Raises OSError, TimeoutError."""

        def on_ready(protocol: ControlProtocol) -> None:
            self._protocol = protocol

        await reach_controller(
            "monitor", (host, port), secrets, chance, on_ready, self._on_message, self._on_lost, tls=tls
        )
        return await self.ask(Watch(pid))

    async def ask(self, operation: Operation[R], timeout_s: float = _ANSWER_SECONDS) -> R:
        """Ask the controller. Raises ConnectionError, TimeoutError."""
        if self._protocol is None:
            raise ConnectionError("the controller cannot be reached")
        return await self._calls.ask(operation, timeout_s)

    def close(self) -> None:
        """Close the connection."""
        if self._protocol is not None:
            self._protocol.close()

    def _send(self, message: ControlMessage) -> None:
        if self._protocol is not None:
            self._protocol.send(message)

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        match message:
            case Answer() | Failed():
                self._calls.answered(message)
            case Call(number, operation):
                task = asyncio.ensure_future(self._carry_out(protocol, number, operation))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

    async def _carry_out(self, protocol: ControlProtocol, number: int, operation: Operation[Result]) -> None:
        try:
            protocol.send(Answer(number, await self._answer(operation)))
        except LookupError as error:
            protocol.send(Failed(number, str(error)))
        except Exception as error:  # a bug: the controller waits for an answer
            log.exception("%s failed", type(operation).__name__)
            protocol.send(Failed(number, f"{type(error).__name__}: {error}"))

    def _on_lost(self, protocol: ControlProtocol) -> None:
        self._protocol = None
        self._calls.lose("the controller has hung up")
        self.ended.set()
