"""The messages between a cluster in a child process and its parent, and how they lie on the socket.

Each message is one packet, with a number before it. The parent sends `Start` and then one order at a time, each with
a number of its own, and reads its answer, which has the same number: `Ready`, `Done`, or `Failed` with the reason.
Answers with another number belong to orders that were broken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from actors import CoterieError
from actors.links.codec import Codec

PACKET_BYTES: Final = 128 << 10
"""The longest that is sent. The kernel takes 208 KiB at once, if nobody has set another limit."""
_NUMBER_BYTES: Final = 4


class OrderError(CoterieError):
    """A cluster for tests could not start, or not do what it was asked. The text says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """The cluster that a child starts, within `start_s` seconds."""

    brokers: int
    start_s: float
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """All brokers serve."""

    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic. It fails with TOPIC_ALREADY_EXISTS if there is one of its name."""

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


def packed(number: int, message: Message) -> bytes:
    """A message as it lies on the socket, its number first."""
    return number.to_bytes(_NUMBER_BYTES, "big") + CODEC.encode(message)


def parted(packet: bytes) -> tuple[int, bytes]:
    """The number of a packet, and what CODEC decodes."""
    return int.from_bytes(packet[:_NUMBER_BYTES], "big"), packet[_NUMBER_BYTES:]
