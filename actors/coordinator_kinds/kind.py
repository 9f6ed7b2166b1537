"""A kind of coordinator, as its hosts know it: the broker that leads its topic, and the process that runs its shard.

The process drives two objects. A `HostedShard` is the state machine over one partition's log, without I/O. A `Service`
is what stands before it: it reads requests from the relay, asks the shard, and sends the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now
from actors.coordinator.writer import Append
from actors.links.relay import Figures, Kind, Payload
from actors.security.acl import ResourceType
from actors.wire.errors import ErrorCode
from actors.wire.framing import RequestHeader

if TYPE_CHECKING:  # a shard's process reads no settings, and asks no controller
    from actors.links.operations import Operation
    from actors.settings import BrokerConfig
    from placement.metadata import ClusterMetadata


T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs long work outside the shard's loop."""

    def __call__(self, work: Callable[[Callable[[], bool]], T], done: Callable[[T | None, Now], None], /) -> None:
        """Call `work` in a thread, then `done` in a turn of its own, with None if the work has failed.

        There is one such thread, so one work is done after the other. `work` is given a function that says whether it
        has taken too long, or is needed no more: then it is to end. `done` is not called if the process hosts something
        else by then.
        """


class HostedShard(Protocol):
    """The coordinator of one partition. `coordinator/shard.py` says when which method is called."""

    needs_reload: bool
    failure: str

    @property
    def state(self) -> ShardState: ...

    def start_loading(self, epoch: int, now: Now | None = None) -> None: ...

    def finish_loading(self, now: Now, log_end_offset: int, high_watermark: int | None = None) -> None: ...

    def take_records(self) -> Append | None: ...

    def appended(self, batch_id: int, base_offset: int, next_offset: int, now: Now) -> None: ...

    def append_refused(self, batch_id: int, error_code: int, now: Now) -> None: ...

    def high_watermark(self, offset: int, now: Now) -> None: ...

    def next_deadline(self) -> int | None: ...

    def on_time(self, now: Now) -> None: ...


Tell = Callable[[int, int, bytes, Now], None]
"""Takes a message of the relay: its a, its b, its payload."""


class Service(Protocol):
    """The part of a shard's process that deals with clients and the broker. It sends over the relay by itself."""

    requests: int
    """The number of clients' requests that it has read."""
    handlers: Mapping[int, Tell]
    """The handler of each message of the relay that is neither a client's request nor about the log."""

    def request(self, connection: int, slot: int, frame: bytes, now: Now) -> None:
        """Read a client's request. Connection 0 is the broker's own."""

    def peer(self, connection: int) -> str:
        """The client at the other end of a connection, for people; empty if it is not known."""

    def loaded(self, now: Now) -> None:
        """The shard has loaded its log and serves from now on."""

    def send_answers(self, now: Now) -> None:
        """Send what the shard has answered."""

    def send_news(self, now: Now) -> None:
        """Tell the broker what has happened since it was told last."""

    def figures(self) -> Figures:
        """Counts since the partition is hosted, and of what is held."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a shard, as its process gives them."""

    partition: int
    send: Callable[[int, int, int, bytes], None]
    """Sends a message over the relay: kind, a, b, payload."""
    say: Callable[[Kind, Payload, int, int], None]
    """Sends one whose payload is one of the relay's dataclasses: kind, payload, a, b."""
    here: Callable[..., dict[str, Any]]
    """The `extra` of a log call in which the partition has a part."""
    new_id: Callable[[], str]
    """Makes UUIDs, as texts."""
    elsewhere: Elsewhere


@dataclass(frozen=True, slots=True)
class Hosted:
    """A shard and what stands before it, as a process hosts them."""

    shard: HostedShard
    service: Service
    compression: int = 0
    """Kafka's number of the codec in which its appends are compressed."""


@dataclass(frozen=True, slots=True)
class RecordCodec:
    """The form in which a shard's state lies in the log."""

    replay: Callable[[Any, bytes], None]
    """Gives the next whole batches of the log to a shard that loads. Raises CorruptBatchError."""
    batch: Callable[[Append, int, int], bytes]
    """The record batch of an append, made at a Unix time in ms, in a compression."""


@dataclass(frozen=True, slots=True)
class SleepRule:
    """The rule by which a shard is asked to let its partition sleep. The shard knows whether it may."""

    idle_setting: str
    """The setting that says after how long unasked, in ms; 0 for never."""
    expires: str
    """The event that wakes it unasked, for people: `offsets expire`."""


@dataclass(frozen=True, slots=True)
class RelayedRequests:
    """The requests that go to shards."""

    error_answer: Callable[[RequestHeader, bytes, ErrorCode], bytes]
    """The whole response frame that says an error to the request in a frame, without asking any shard."""
    never_parked: frozenset[int]
    """API keys of requests that are answered at once while the shard loads."""
    rouse_nobody: frozenset[int]
    """API keys of requests about all that there is, which keep no shard awake."""


@dataclass(frozen=True, slots=True, eq=False)
class CoordinatorKind:
    """All that a host has to know of a kind of coordinator. There is one object of each kind."""

    name: str
    """Names what is coordinated, in the plural. A process is told by it what to host."""
    key_type: int
    """FindCoordinator's."""
    resource: ResourceType
    """The type of resource that a key is to ACLs."""
    topic: str
    """The internal topic that has its records. The leader of a partition coordinates the keys of that partition."""
    partition_name: str
    """A partition of the topic, in log lines."""
    partitions_setting: str
    """The setting that says how many partitions the topic is created with."""
    partition_of: Callable[[str, int], int]
    """The partition of a key, if there are so many."""
    creation: Callable[[], Operation[Any]]
    """Makes the operation by which the controller creates the topic. Its result has an `error_message`, or None."""
    assignment: Callable[[BrokerConfig, ClusterMetadata, int], bytes]
    """Makes what a process is told with BECOME, in a version of the relay: settings, and other things to know."""
    settings: Callable[[BrokerConfig, ClusterMetadata], Payload] | None
    """Makes what processes are told when settings have changed that they go by; None if there are none."""
    remarks: Callable[[Any, Any], Iterable[str]]
    """The log's remarks on such settings that did not hold of those before, which may be None."""
    host: Callable[[bytes, Surroundings], Hosted]
    """Makes a shard, in its process, of what the process was told."""
    codec: RecordCodec
    requests: RelayedRequests
    sleep: SleepRule
