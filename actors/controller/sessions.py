"""A connected broker as the controller knows it, and the launcher of processes as the controller needs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from actors.links.calls import Calls
from actors.links.connection import ControlProtocol
from actors.links.control import Hello, Stop
from actors.links.group_status import GroupStatus
from actors.links.operations import HandOver, ListShards, LookAtGroup, Shards
from actors.links.status import Load
from actors.runtime.liveness import Sight, Silence
from placement.metadata import BrokerInfo

log = logging.getLogger(__name__)

_HAND_OVER_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 5.0


class Launcher(Protocol):
    """Starts and ends the processes of a cluster."""

    def start_broker(self, broker_id: int) -> None: ...

    def kill_broker(self, broker_id: int) -> None: ...

    def heard(self, broker_id: int) -> None:
        """A broker that was started lives; it has not registered yet."""

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        """A broker has registered; it listens at these ports, by listener."""

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        """Have `count` more shard processes under way to a broker, those being started included.

        Clients wait for `urgent` of them. Those in `here` have come to the broker.
        """

    def start_monitor(self) -> None:
        """Start the cluster's Monitor; one that runs is ended first."""

    def move_broker(self, broker_id: int) -> None:
        """Have a broker that was replaced started on another node from now on."""

    def home_is_gone(self, broker_id: int) -> bool:
        """True if no node with the broker's home was there at the last look. It asks for another look."""

    def node_of(self, broker_id: int) -> str:
        """The id of the Ray node that a broker runs on; empty if that is not known."""

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        """The state of the process with this pid that began at `started` (clock ticks since boot; 0: at any time).

        None if it is gone, or runs on another machine than the controller.
        """


@dataclass(eq=False, slots=True)
class Session:
    """A connected broker."""

    protocol: ControlProtocol
    calls: Calls
    joins: int = -1
    """The broker that has joined by this connection."""
    broker_id: int = -1
    """The broker that has registered by it."""
    epoch: int = -1
    pid: int = 0
    process_started: int = 0
    directory: str = ""
    """The id of its data directory; empty if it does not tell."""
    welcomed: bool = False
    """True if it was told that it is registered: it is sent images from then on."""
    answered: bool = False
    """True if the broker has shown that it knows it is registered."""
    unreachable: tuple[int, ...] = ()
    """The brokers that have hung up on this one, by its word."""
    acked_version: int = -1
    security_version: int = -1
    """Of the credentials and ACLs that it was sent last."""
    last_heard: float = 0.0
    silence: Silence | None = None
    caught_up: float | None = None  # the last time at which it had all of the metadata
    load: Load | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def heard_at(self, now: float) -> None:
        """It is no longer silent, as of this time of the loop."""
        self.last_heard, self.silence = now, None

    def may_be(self, broker_id: int) -> bool:
        """True if this can be the broker that it now says it is. A connection speaks for one broker, to its end."""
        allowed = broker_id >= 0 and {self.joins, self.broker_id} <= {-1, broker_id}
        if not allowed:
            log.error("broker %d says that it is broker %d: hung up on", max(self.joins, self.broker_id), broker_id)
        return allowed


def described(hello: Hello, epoch: int) -> BrokerInfo:
    """The broker that has sent `hello`, as the metadata describes it."""
    return BrokerInfo(
        id=hello.broker_id,
        host=hello.endpoints[0].host,
        port=hello.endpoints[0].port,
        rack=hello.rack,
        epoch=epoch,
        replica_host=hello.replica_host,
        replica_port=hello.replica_port,
        pid=hello.pid,
        process_started=hello.process_started,
        endpoints=hello.endpoints,
    )


async def shards_of(sessions: Iterable[Session], timeout_s: float) -> dict[int, Shards]:
    """The shards of each broker, by its id; brokers that do not answer within `timeout_s` are left out."""

    async def shards(session: Session) -> Shards | None:
        try:
            return await session.calls.ask(ListShards(), timeout_s)
        except (OSError, TimeoutError):
            return None

    asked = list(sessions)
    found = await asyncio.gather(*map(shards, asked))
    return {session.broker_id: rows for session, rows in zip(asked, found, strict=True) if rows is not None}


async def group_status(sessions: Mapping[int, Session], broker_id: int, group_id: str) -> GroupStatus | None:
    """A broker's view of a group; None if the broker does not coordinate it, or does not answer."""
    session = sessions.get(broker_id)
    if session is not None:
        with suppress(OSError, TimeoutError):
            return (await session.calls.ask(LookAtGroup(group_id), _LOOK_SECONDS)).status
    return None


async def close_broker(sessions: Mapping[int, Session], broker_id: int) -> None:
    """Have a broker hand over what it leads, then close its logs and end. Raises OSError, TimeoutError."""
    session = sessions.get(broker_id)
    if session is None:
        raise ConnectionError("it does not run")
    await session.calls.ask(HandOver(), _HAND_OVER_SECONDS)
    session.protocol.send(Stop())


async def stop_all(sessions: Iterable[Session], timeout_s: float) -> None:
    """Have brokers close their logs and end, and wait for it. Raises TimeoutError."""
    asked = list(sessions)
    for session in asked:
        session.protocol.send(Stop())
    async with asyncio.timeout(timeout_s):
        for session in asked:
            await session.ended.wait()
