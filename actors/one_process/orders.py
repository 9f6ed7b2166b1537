"""The messages between a cluster in a child process and its parent, and how they lie on the socket.

The parent sends one order at a time and reads its answer, `Done` or `Failed`. The first message comes from the child:
`Ready`, or `Failed` with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from actors import CoterieError
from actors.links.codec import Codec

LENGTH_BYTES: Final = 4


class OrderError(CoterieError):
    """A cluster for tests could not start, or not do what it was asked. The text says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a child is told at its start. It makes `folder`, and removes it at its end."""

    folder: str
    brokers: int
    parent: int
    """The pid of the process that the child must not outlive."""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """All brokers serve."""

    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic, if there is none of its name."""

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KillCoordinator:
    """End the process that coordinates a group."""

    group: str


@dataclass(frozen=True, slots=True)
class Expel:
    """Remove a member from its group, by its member id, instance id or client id. Done says its member id."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class LoseLeader:
    """Kill the broker that leads a partition; wait for the next leader, and until the broker is back.

    Done says the leader's id.
    """

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Delay:
    """Handle the next `times` requests of an API, and have their answers wait."""

    api: str
    seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the next `times` requests of an API with an error, and handle none of them."""

    api: str
    error: str
    times: int


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """Delay and refuse no more. Done says how many requests were met since the start."""


@dataclass(frozen=True, slots=True)
class MoveClock:
    """Let so much time pass for the cluster."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """An order has been carried out."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An order has not been carried out, or the cluster did not start."""

    reason: str


Order = CreateTopic | KillCoordinator | Expel | LoseLeader | Delay | Refuse | LeaveAlone | MoveClock
Message = Start | Ready | Done | Failed | Order

CODEC: Final[Codec[Message]] = Codec(
    "one process",
    {
        1: Start,
        2: Ready,
        3: Done,
        4: Failed,
        5: CreateTopic,
        6: KillCoordinator,
        7: Expel,
        8: LoseLeader,
        9: Delay,
        10: Refuse,
        11: LeaveAlone,
        12: MoveClock,
    },
)


def framed(message: Message) -> bytes:
    """A message as it lies on the socket, its length first."""
    body = CODEC.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
