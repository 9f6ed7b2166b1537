"""A Monitor's views of a cluster, which the console, the commands and drivers are given.

A view is a moment, taken when the Monitor last looked (`wall_ms`). Asking for one never reaches a broker. Times are
wall times in ms; a lag in seconds is the age of the oldest record that a group has not read. None stands for what
is not known, which is never the same as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from actors.coordinator.classic.reports import ClassicRebalanceView as ClassicRebalanceView
from actors.coordinator.groups.reports import PlainRebalanceView as PlainRebalanceView
from actors.coordinator.groups.reports import RebalanceView as RebalanceView
from actors.coordinator.groups.reports import Waited as Waited
from actors.links.codec import since
from actors.links.operations import Operation, Result

# --- the cluster ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShardView:
    """An offsets partition and what hosts it. `pid` is None while it sleeps, `partition` -1 for a spare."""

    partition: int
    broker_id: int
    state: str
    pid: int | None
    epoch: int
    groups: int
    offsets: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker. Rates are means since the look before; None after the first."""

    id: int
    host: str
    port: int
    rack: str | None
    node_id: str
    """Of its Ray node."""
    epoch: int
    alive: bool
    pid: int | None
    connections: int
    leads: int | None
    """Partitions that it leads, those of `__consumer_offsets` included."""
    replicas: int | None
    requests_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    longest_turn_ms: float
    parked: int
    """Requests that wait: joins, syncs, fetches, produces with acks=all."""
    notes: tuple[str, ...] = since(3, ())
    """For people: that it is being removed, or on a Ray node that is drained."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a part of the cluster: an election, a death, a sleep, a change of an in-sync set.

    `kind` is one word in lower case, `subject` what it happened to (`broker 1`, `orders-3`), `text` a sentence.
    """

    number: int
    wall_ms: int
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Overview(Result):
    """The cluster as a whole. The last events come last."""

    cluster_id: str
    name: str
    wall_ms: int
    controller_epoch: int
    controller_pid: int
    controller_node_id: str
    brokers: tuple[BrokerView, ...]
    shards: tuple[ShardView, ...]
    topics: int
    partitions: int
    groups: Mapping[str, int]
    """The number of groups in each state."""
    lag: int | None
    messages_per_s: float | None
    commits_per_s: float | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class GetOverview(Operation[Overview]):
    """Ask for the cluster as a whole, with at most `events` events."""

    events: int = 50


# --- groups -----------------------------------------------------------------------------------------------------


TREND_POINTS: Final = 30
"""The number of parts of the last hour in a trend."""
CLASSIC: Final = "classic"
REBALANCING: Final = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))
"""The states of groups of all types, by Kafka's names, in which some members wait for their assignment."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in a list. `lag_seconds` is its slowest partition's, `lag` the sum of those that are known."""

    group_id: str
    state: str
    protocol_type: str
    kind: str
    """The kind of its members, or of the last it had: `pool`, `spark`, `consumer`; `simple` if it only commits."""
    members: int | None
    topics: tuple[str, ...]
    broker_id: int
    """Its coordinator, -1 if there is none."""
    offsets_partition: int
    lag: int | None
    lag_seconds: float | None
    commits_per_s: float | None
    rebalances: int
    """The number of those known of the last hour."""
    last_rebalance_ms: int | None = None
    trend: tuple[int | None, ...] = ()
    """Its greatest lag in each two minutes of the last hour, oldest first; of a shorter past fewer than 30."""
    group_type: str = field(default=CLASSIC, metadata={"since": 1})
    """Kafka's name of the type, in lower case."""
    epoch: int | None = field(default=None, metadata={"since": 1})
    """Of a consumer group; else None."""
    assignment_epoch: int | None = field(default=None, metadata={"since": 1})
    """The epoch of a consumer group that its members' targets are of; else None."""


@dataclass(frozen=True, slots=True)
class GroupRows(Result):
    """All groups, by their ids."""

    wall_ms: int
    groups: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class ListGroupRows(Operation[GroupRows]):
    """Ask for all groups."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member. `process` says for people where it runs, if it has told: `pid 4711 on node 3f2a`.

    In a consumer group `assignment` is all that it holds, with what it was told to give back.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: Mapping[str, tuple[int, ...]]
    process: str = ""
    epoch: int | None = field(default=None, metadata={"since": 1})
    """Of a member of a consumer group; else None."""
    to_give_back: Mapping[str, tuple[int, ...]] = field(default_factory=dict, metadata={"since": 1})
    """The partitions that it holds, and is not to have in the end."""
    to_come: Mapping[str, tuple[int, ...]] = field(default_factory=dict, metadata={"since": 1})
    """The partitions that it is to have in the end, and does not hold yet."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The progress of a group in a partition. `lag_seconds` is 0.0 where nothing is unread."""

    topic: str
    partition: int
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    lag_seconds: float | None
    commit_ms: int | None
    member_id: str | None
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupView(Result):
    """A group and all that is in it. `row` is None if there is no such group."""

    wall_ms: int
    row: GroupRow | None
    members: tuple[MemberView, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()
    awaited: tuple[str, ...] = ()
    """The members that the running phase of a rebalance waits for. Not all are named if they are many."""
    phase_ends_in_ms: int | None = None
    rebalances: tuple[RebalanceView, ...] = ()
    """The last ones, oldest first."""
    awaited_count: int = 0
    """The number of members that the running phase waits for, those that are not named included."""


@dataclass(frozen=True, slots=True)
class GetGroup(Operation[GroupView]):
    """Ask for a group, with at most `rebalances` rebalances."""

    group_id: str
    rebalances: int = 20


@dataclass(frozen=True, slots=True)
class LagPoint:
    """A group's lag at a moment: the sum of its partitions', and the slowest one's in seconds."""

    wall_ms: int
    lag: int | None
    lag_seconds: float | None
    committed: int | None
    """The sum of its offsets, from which its rate follows."""


@dataclass(frozen=True, slots=True)
class GroupHistory(Result):
    """A group over time, oldest first."""

    group_id: str
    points: tuple[LagPoint, ...]
    rebalances: tuple[RebalanceView, ...]


@dataclass(frozen=True, slots=True)
class GetGroupHistory(Operation[GroupHistory]):
    """Ask for what is known of a group between two wall times, in at most `points` points."""

    group_id: str
    since_ms: int
    until_ms: int
    points: int = 300


# --- topics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in a list. `size_bytes` is one replica's; rates are of the whole topic."""

    name: str
    partitions: int
    replicas: int
    size_bytes: int | None
    records: int | None
    """Log ends less log starts, over all partitions."""
    under_replicated: int
    messages_per_s: float | None
    groups: tuple[str, ...]
    """The groups that have committed offsets of it."""
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicRows(Result):
    """All topics, by name."""

    wall_ms: int
    topics: tuple[TopicRow, ...]


@dataclass(frozen=True, slots=True)
class ListTopicRows(Operation[TopicRows]):
    """Ask for all topics."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition of a topic."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start: int | None
    log_end: int | None
    size_bytes: int | None
    last_ms: int | None
    """The timestamp of its newest record."""


@dataclass(frozen=True, slots=True)
class TopicView(Result):
    """A topic. `row` is None if there is no such topic."""

    wall_ms: int
    row: TopicRow | None
    partitions: tuple[PartitionView, ...] = ()
    configs: Mapping[str, str] | None = field(default_factory=dict)
    """None: whoever asks may not see them."""


@dataclass(frozen=True, slots=True)
class GetTopic(Operation[TopicView]):
    """Ask for a topic."""

    name: str


# --- the Monitor itself -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen(Result):
    """All that a Monitor has to say of itself: since when it looks, how often, and what it leaves out."""

    since_ms: int
    interval_ms: int
    last_look_ms: int
    look_took_ms: int
    series_left_out: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GetSeen(Operation[Seen]):
    """Ask a Monitor about itself."""


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {
    140: GetOverview,
    141: ListGroupRows,
    142: GetGroup,
    143: GetGroupHistory,
    144: ListTopicRows,
    145: GetTopic,
    146: GetSeen,
    240: Overview,
    241: GroupRows,
    242: GroupView,
    243: GroupHistory,
    244: TopicRows,
    245: TopicView,
    246: Seen,
}
"""Tags on the control link, beside those of `operations`."""
