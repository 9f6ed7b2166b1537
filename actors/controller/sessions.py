"""What the controller knows of a connected broker, and what it needs of the launcher that starts processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from actors.links.connection import ControlProtocol
from actors.links.control import Hello, Load
from actors.runtime.liveness import Sight, Silence
from placement.metadata import BrokerInfo


class Launcher(Protocol):
    """Starts and ends the processes of a cluster."""

    def start_broker(self, broker_id: int) -> None: ...

    def kill_broker(self, broker_id: int) -> None: ...

    def start_shards(self, broker_id: int, count: int) -> None:
        """Have `count` more shard processes under way to a broker, those being started included."""

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        """What the process with this pid is doing that began at `started` (clock ticks since boot; 0: at any time).

        None if it is gone, or runs on another machine than the controller.
        """


@dataclass(eq=False, slots=True)
class Session:
    """A connected broker."""

    protocol: ControlProtocol
    broker_id: int = -1
    epoch: int = -1
    pid: int = 0
    process_started: int = 0
    answered: bool = False
    """Whether the broker has shown that it knows it is registered."""
    acked_version: int = -1
    last_heard: float = 0.0
    silence: Silence | None = None
    caught_up: float | None = None  # when it last had all of the metadata
    load: Load | None = None


def described(hello: Hello, epoch: int) -> BrokerInfo:
    """The broker that has sent `hello`, as the metadata describes it."""
    return BrokerInfo(
        id=hello.broker_id,
        host=hello.host,
        port=hello.port,
        rack=hello.rack,
        epoch=epoch,
        replica_host=hello.replica_host,
        replica_port=hello.replica_port,
        pid=hello.pid,
        process_started=hello.process_started,
    )
