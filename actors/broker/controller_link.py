"""A broker's connection to the controller. Images of the metadata come in, heartbeats go out, calls go both ways."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from actors.broker.replication import LOST
from actors.links.calls import Calls
from actors.links.connection import ControlProtocol, Message, reach_controller
from actors.links.control import (
    Answer,
    Applied,
    Call,
    Confirmed,
    ControlMessage,
    Failed,
    Heartbeat,
    Hello,
    Image,
    Join,
    Joined,
    Stop,
    Welcome,
)
from actors.links.operations import Operation, Result
from actors.links.secret import Secrets
from actors.links.status import Load
from actors.runtime.environment import Chance
from actors.settings import LinkStores
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Result)

_ANSWER_SECONDS = 10.0


class Broker(Protocol):
    """The part of a broker that hears from the controller it is registered with."""

    def on_image(self, metadata: ClusterMetadata) -> int:
        """Take over an image. The version of the metadata that is in force afterwards."""

    def on_controller_lost(self, link: ControllerLink) -> None:
        """The connection has ended."""

    async def on_call(self, operation: Operation[Result]) -> Result:
        """Carry out what the controller asks. An error that it raises is the answer, too."""

    def on_stop(self) -> None:
        """Close the logs and end."""


class ControllerLink:
    """One connection to a controller. Calls fail at once if it is not connected."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, secrets: Secrets, chance: Chance, *, tls: LinkStores | None = None
    ) -> None:
        self._loop = loop
        self._tls = tls
        self._chance = chance
        self.secrets = secrets
        self._protocol: ControlProtocol | None = None
        self._broker: Broker | None = None  # registered by it; one that only joined hears of no image
        self._answer: asyncio.Future[Joined | Welcome] | None = None  # to a join or a hello
        self._calls = Calls(self.send)
        self._called: set[asyncio.Task[None]] = set()  # the controller's calls that have no answer yet
        self.epoch = -1
        self.last_confirmed = 0.0
        self.silent_ticks = 0
        """Ticks since anything was heard. A number, not a time: a process that was stopped asked nobody."""

    @property
    def connected(self) -> bool:
        return self._protocol is not None

    async def connect(self, host: str, port: int) -> None:
        """Connect, both ends proving that they know the secret. Raises OSError, TimeoutError."""

        def on_ready(protocol: ControlProtocol) -> None:
            self._protocol = protocol  # only now, because any other message before the proofs would end the connection

        await reach_controller(
            "broker",
            (host, port),
            self.secrets,
            self._chance,
            on_ready,
            self._on_message,
            self._lost,
            tls=self._tls,
        )

    def send(self, message: ControlMessage) -> None:
        """Send a message. It is dropped if there is no connection."""
        if self._protocol is not None:
            self._protocol.send(message)

    async def join(self, broker_id: int) -> Joined:
        """Join: the cluster's id and metadata. Raises OSError, TimeoutError."""
        joined = await self._ask(Join(broker_id))
        assert isinstance(joined, Joined)
        return joined

    async def _ask(self, message: Join | Hello) -> Joined | Welcome:
        if self._protocol is None:  # lost since the answer before: nobody would say so any more
            raise ConnectionError("the controller hung up")
        self._answer = self._loop.create_future()
        self.send(message)
        return await asyncio.wait_for(self._answer, _ANSWER_SECONDS)

    async def register(self, hello: Hello, broker: Broker) -> None:
        """Register. Then `broker` hears of images and of this connection's end. Raises OSError, TimeoutError."""
        self._broker = broker
        await self._ask(hello)

    def heartbeat(self, load: Load, leaving: bool, unreachable: tuple[int, ...] = ()) -> None:
        """Send a heartbeat, which asks for the lease. `unreachable` are other brokers."""
        self.send(Heartbeat(self._loop.time(), load, leaving, unreachable))

    def call(self, operation: Operation[R], done: Callable[[R | None, str | None], None], by: str = "") -> None:
        """Ask the controller to do something. `done` gets (result, None) or (None, the error)."""
        if self._protocol is None:
            done(None, "the controller cannot be reached")
            return
        self._calls.call(operation, done, by)

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        if protocol is not self._protocol:
            self._on_late_message(message)
            return
        self.silent_ticks = 0
        match message:
            case Image(metadata) if self._broker is not None:
                self.send(Applied(self._broker.on_image(metadata)))
            case Answer() | Failed():
                self._calls.answered(message)
            case Confirmed(sent):
                self.last_confirmed = sent
            case Joined():
                self._settle(message)
            case Welcome(epoch):
                self.epoch = epoch
                self._settle(message)
            case Call(number, operation) if self._broker is not None:
                answering = self._loop.create_task(self._carry_out(self._broker, number, operation))
                self._called.add(answering)
                answering.add_done_callback(self._called.discard)
            case Stop() if self._broker is not None:
                self._broker.on_stop()

    def _on_late_message(self, message: Message) -> None:
        """From a controller that was given up. It may not have read yet what we asked of it last.

        So its image does not show what became of that; the one that follows our next registration does.
        """
        if isinstance(message, Stop) and self._broker is not None:
            self._broker.on_stop()

    async def _carry_out(self, broker: Broker, number: int, operation: Operation[Result]) -> None:
        try:
            self.send(Answer(number, await broker.on_call(operation)))
        except OSError as error:
            self.send(Failed(number, str(error) or type(error).__name__))
        except Exception as error:  # a bug: the controller waits for an answer
            log.exception("%s failed", type(operation).__name__)
            self.send(Failed(number, str(error) or type(error).__name__))

    def _settle(self, answer: Joined | Welcome) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _lost(self, protocol: ControlProtocol) -> None:
        if protocol is not self._protocol:
            return
        self._protocol = None
        self._calls.lose(LOST)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the controller hung up"))
        if self._broker is not None:
            self._broker.on_controller_lost(self)

    def give_up(self) -> ControlProtocol | None:
        """Stop using this connection, and return it. It stays open: its end would say that this broker has died."""
        protocol = self._protocol
        if protocol is not None:
            self._lost(protocol)
        return protocol

    def close(self) -> None:
        """Close the connection."""
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.close()
        self._calls.lose(LOST)
