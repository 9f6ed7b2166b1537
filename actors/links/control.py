"""The messages between the controller and its brokers, and between controllers that vote; `connection` carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from actors.links import acl_operations, observations, operations, quota_operations, reading, views, voters
from actors.links.codec import Codec, UnknownKindError, since
from actors.links.group_status import GROUP_CLASSES, GROUP_CLASSES_SINCE, WITHOUT_TAG, GroupReport
from actors.links.operations import Operation, Result
from actors.links.status import Load
from actors.quorum.messages import Message as VotersMessage
from placement.metadata import ClusterMetadata, Endpoint


@dataclass(frozen=True, slots=True)
class Join:
    """Broker -> controller: the first message of a broker that starts. It asks for the cluster's id and metadata."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Controller -> broker: the answer to Join. `authorizer` is the cluster's authorizer.class.name."""

    cluster_id: str
    metadata: ClusterMetadata
    authorizer: str = ""


@dataclass(frozen=True, slots=True)
class Hello:
    """Broker -> controller: register this process as the broker. `epoch` is -1 until the controller has given one."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    """The addresses that clients are told to connect to, one for each listener."""
    ports: Mapping[str, int]
    """The port at which it listens for clients of each listener."""
    rack: str | None
    pid: int
    process_started: int
    """The start of the process (clock ticks since its machine's boot), 0 if that cannot be told."""
    replica_host: str = ""
    replica_port: int = 0
    intact: bool = True
    """True if its logs have everything that it ever acknowledged."""
    directory: str = since(2, "")
    """The id of its data directory; empty if it does not tell."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Controller -> broker: registered, at this epoch."""

    epoch: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Broker -> controller: a sign of life that asks for a lease. `sent` is the broker's own clock (seconds).

    From a broker that has joined and not registered yet it says that recovery goes on.
    """

    sent: float
    load: Load
    leaving: bool = False
    """True if it has handed over what it led, or is about to, and follows nobody (Kafka's WantShutDown)."""
    unreachable: tuple[int, ...] = since(5, ())
    """The brokers that have hung up on this one, and that it does not reach since."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Controller -> broker: the heartbeat sent at `sent` was read. The lease counts from then."""

    sent: float


@dataclass(frozen=True, slots=True)
class Image:
    """Controller -> broker: the whole metadata, after a change."""

    metadata: ClusterMetadata


@dataclass(frozen=True, slots=True)
class Applied:
    """Broker -> controller: the metadata of this version, or of a newer one, is in force."""

    version: int


@dataclass(frozen=True, slots=True)
class WantSpares:
    """Broker -> controller: this broker needs `count` more shard processes, those being started included.

    For `urgent` of them clients wait. `here` are the names of those it has: they are under way no longer.
    """

    count: int
    urgent: int = 0
    here: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Controller -> broker: close the logs and end. The end of the connection is the answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """Either end -> the other: carry out `operation`. The answer repeats `number`.

    `by` is the client that wants it, for the log; empty if the end itself does.
    """

    number: int
    operation: Operation[Result]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call."""

    number: int
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """A call could not be done, and nothing has changed."""

    number: int
    error: str


ControlMessage: TypeAlias = (
    Join
    | Joined
    | Hello
    | Welcome
    | Heartbeat
    | Confirmed
    | Image
    | Applied
    | WantSpares
    | Stop
    | Call
    | Answer
    | Failed
    | voters.BetweenVoters
    | voters.ControllerAt
    | VotersMessage
    | Operation[Result]
    | Result
    | GroupReport
)

CODEC: Codec[ControlMessage] = Codec(
    "control",
    {
        1: Join,
        2: Joined,
        3: Hello,
        4: Welcome,
        5: Heartbeat,
        6: Confirmed,
        7: Image,
        8: Applied,
        9: WantSpares,
        10: Call,
        11: Answer,
        12: Failed,
        13: Stop,
        **voters.CLASSES,
        **operations.CLASSES,
        **acl_operations.CLASSES,
        **quota_operations.CLASSES,
        **views.CLASSES,
        **reading.CLASSES,
        **observations.CLASSES,
        **GROUP_CLASSES,
    },
    without_tag=WITHOUT_TAG,
    packed={ClusterMetadata: (ClusterMetadata.to_wire, ClusterMetadata.from_wire)},
    since={**operations.SINCE, **GROUP_CLASSES_SINCE, **voters.SINCE},
)


def refusal(error: UnknownKindError, text: str) -> Failed | None:
    """The failure of a call whose operation, or whose result, is of a kind that is not known here.

    None if the message was no call and no answer.
    """
    number = error.values[0] if error.outer in (Call, Answer) and error.values else None
    return Failed(number, text) if type(number) is int else None
