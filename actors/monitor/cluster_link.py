"""A Monitor's link to the controller, and the brokers as they are reached through it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from actors.links.calls import Calls
from actors.links.connection import ControlProtocol, Message, reach_controller
from actors.links.control import Answer, Call, ControlMessage, Failed
from actors.links.observations import Watch, Watching
from actors.links.operations import Operation, Result
from actors.links.reading import ForBroker
from actors.runtime.environment import Chance
from placement.metadata import NO_LEADER, ClusterMetadata

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Result)

_ANSWER_SECONDS: Final = 10.0


class ClusterLink:
    """One connection to a controller. `answer` is given the questions that come over it; what it raises is an answer.

    `ended` is set when the connection has ended.
    """

    def __init__(self, answer: Callable[[Operation[Result]], Result]) -> None:
        self._answer = answer
        self._protocol: ControlProtocol | None = None
        self._calls = Calls(self._send)
        self.ended = asyncio.Event()

    async def connect(
        self, host: str, port: int, secret: bytes, chance: Chance, pid: int, *, encrypted: bool
    ) -> Watching:
        """Connect, and say that this is the Monitor. Raises OSError, TimeoutError."""

        def on_ready(protocol: ControlProtocol) -> None:
            self._protocol = protocol

        await reach_controller(
            "monitor", (host, port), secret, chance, on_ready, self._on_message, self._on_lost, encrypted=encrypted
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
                protocol.send(self._answered(number, operation))

    def _answered(self, number: int, operation: Operation[Result]) -> Answer | Failed:
        try:
            return Answer(number, self._answer(operation))
        except Exception as error:
            log.exception("%s failed", type(operation).__name__)
            return Failed(number, f"{type(error).__name__}: {error}")

    def _on_lost(self, protocol: ControlProtocol) -> None:
        self._protocol = None
        self._calls.lose("the controller has hung up")
        self.ended.set()


class Brokers:
    """The brokers of the last metadata that was seen. Questions to them go through the controller."""

    def __init__(self) -> None:
        self.metadata = ClusterMetadata()
        self.link: ClusterLink | None = None

    @property
    def alive(self) -> tuple[int, ...]:
        """Their ids."""
        return tuple(broker.id for broker in self.metadata.alive())

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """All topics there are."""
        return {name: topic.id for name, topic in self.metadata.topics.items()}

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Who leads a partition, if somebody does."""
        info = self.metadata.partition(topic, partition)
        return None if info is None or info.leader == NO_LEADER else info.leader

    async def ask(self, broker_id: int, operation: Operation[R]) -> R | None:
        """Ask a broker. None if it does not answer."""
        if self.link is None:
            return None
        try:
            return await self.link.ask(ForBroker(broker_id, operation))  # type: ignore[return-value]
        except (OSError, TimeoutError) as error:
            log.info("broker %d does not answer %s: %s", broker_id, type(operation).__name__, error)
            return None
