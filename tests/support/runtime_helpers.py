"""Helpers that tests of controller, brokers and shards share: a loop, a clock put forward by hand, waiting for a
condition, ends of control links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from actors.links import versions
from actors.links.connection import ControlProtocol, Message, dial
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
    Welcome,
)
from actors.links.operations import Faulted
from actors.links.secret import Secrets
from actors.links.status import Load
from actors.links.versions import Spoken
from actors.runtime.environment import REAL
from actors.settings import LinkStores
from placement.metadata import Endpoint
from tests.support.calls import operation, plain

T = TypeVar("T")
M = TypeVar("M")

SECRET = Secrets(b"k" * 32)


def run(test: Coroutine[Any, Any, T], timeout_s: float = 200.0) -> T:
    """Run a test's coroutine on a loop like that of every process of ours."""

    async def limited() -> T:
        return await asyncio.wait_for(test, timeout_s)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(limited())


async def until(condition: Callable[[], T], timeout_s: float = 60.0, what: str = "") -> T:
    """The first true result of `condition`; fails when `timeout_s` has passed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not (result := condition()):
        assert loop.time() < deadline, f"waited {timeout_s:.0f} s for {what or condition}: {result!r}"
        await asyncio.sleep(0.002)
    return result


class Clock:
    """The loop with a clock that the test puts forward."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ahead = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class FakeBroker:
    """A broker's end of a control connection: sends the test's messages, and keeps those it hears."""

    def __init__(
        self,
        broker_id: int,
        epoch: int = -1,
        *,
        acks: bool = True,
        tls: LinkStores | None = None,
        spoken: Spoken = versions.OWN,
        directory: str = "",
    ) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.spoken = spoken
        self.epoch = epoch
        self.acks = acks
        self.tls = tls
        self.heard: list[Message] = []
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.protocol: ControlProtocol

    async def connect(self, port: int, secret: Secrets = SECRET) -> FakeBroker:
        """Connect and prove the secret."""
        loop = asyncio.get_running_loop()
        self.protocol = ControlProtocol(
            *("broker", secret, REAL.chance, lambda _: self.ready.set(), self._on_message, lambda _: self.lost.set()),
            spoken=self.spoken,
        )
        await dial(lambda: self.protocol, "127.0.0.1", port, secret, tls=self.tls)
        await asyncio.wait(
            [loop.create_task(self.ready.wait()), loop.create_task(self.lost.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        return self

    async def register(self, port: int, *, listens_on: int = 9092) -> FakeBroker:
        """Connect, say hello, wait for the welcome, and show that it came."""
        await self.connect(port)
        self.send(self.hello(listens_on))
        self.epoch = (await self.hear(Welcome)).epoch
        self.send(Heartbeat(0.0, Load()))
        self.heard.remove(await self.hear(Confirmed))
        return self

    def hello(self, listens_on: int = 9092) -> Hello:
        """The message with which it registers."""
        at = Endpoint("PLAINTEXT", "127.0.0.1", listens_on)
        process = (1000 + self.broker_id, 77)
        ports = {"PLAINTEXT": listens_on}
        return Hello(self.broker_id, self.epoch, (at,), ports, None, *process, directory=self.directory)

    def _on_message(self, protocol: ControlProtocol, message: Message) -> None:
        self.heard.append(message)
        if isinstance(message, Image) and self.acks:
            self.send(Applied(message.metadata.version))

    def send(self, message: ControlMessage) -> None:
        """Say one message."""
        self.protocol.send(message)

    def of(self, kind: type[M]) -> list[M]:
        """The messages of one kind that it has heard."""
        return [message for message in self.heard if isinstance(message, kind)]

    async def hear(self, kind: type[M], count: int = 1) -> M:
        """The `count`th message of a kind."""
        await until(lambda: len(self.of(kind)) >= count, what=kind.__name__)
        return self.of(kind)[count - 1]

    async def call(self, name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
        """Ask the controller to do something; {result}, or {error}."""
        self.ask(name, number, **arguments)
        return await until(lambda: self.answer(number), what=name) or {}

    def ask(self, name: str, number: int = 1, **arguments: Any) -> None:
        """The same without waiting for the answer."""
        self.send(Call(number, operation(name, **arguments)))

    def answer(self, number: int = 1) -> dict[str, Any] | None:
        """The answer to a call: {result} or {error}; None before it comes."""
        for message in self.heard:
            if isinstance(message, Answer) and message.number == number:
                if isinstance(message.result, Faulted):
                    return {"error": message.result.error_message}
                return {"result": plain(message.result)}
            if isinstance(message, Failed) and message.number == number:
                return {"error": message.error}
        return None

    def hang_up(self) -> None:
        """Die, as the controller sees it."""
        self.protocol.close()
