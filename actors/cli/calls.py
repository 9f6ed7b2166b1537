"""What the commands ask of a cluster, in their own small terms. The one module of the command that knows Admin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from actors.cli.group_rows import Committed, Group, Partition
from actors.cli.reset import Log


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition; leader -1 is none."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def unavailable(self) -> bool:
        return self.leader < 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions in order."""

    name: str
    internal: bool
    topic_id: str | None
    partitions: tuple[PartitionState, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None is the broker's default, `assignment` the replicas of each partition."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignment: tuple[tuple[int, ...], ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a listing."""

    name: str
    state: str
    protocol_type: str
    group_type: str


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's address."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port} ({self.id})"


class Calls(Protocol):
    """One connection to a cluster. Everything raises the clients' KafkaError.

    Methods on several things answer with an error text for each, None where it went well.
    """

    def topics(self, names: Sequence[str] | None = None) -> list[Topic]:
        """These topics, those that exist, or all of them."""

    def topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings each topic has of its own."""

    def create_topic(self, topic: NewTopic) -> None: ...

    def add_partitions(self, topic: str, count: int) -> None:
        """Up to `count` partitions altogether."""

    def alter_topic_configs(self, topic: str, changed: Mapping[str, str], removed: Iterable[str]) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]: ...

    def describe_groups(self, names: Sequence[str]) -> list[Group]:
        """A group that does not exist has the state Dead."""

    def committed(self, group: str) -> dict[Partition, Committed]: ...

    def logs(self, partitions: Sequence[Partition]) -> dict[Partition, Log]:
        """The offsets of those partitions that exist."""

    def offsets_at(self, partitions: Sequence[Partition], time_ms: int) -> dict[Partition, int]:
        """The first offset at or after a time, for those partitions that have one."""

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None: ...

    def delete_group(self, group: str) -> None: ...

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, str | None]: ...

    def coordinator(self, group: str) -> Broker: ...


@contextmanager
def connect(bootstrap_server: str, timeout_ms: int) -> Iterator[Calls]:
    """Calls to the cluster behind these brokers, closed at the end."""
    raise NotImplementedError
    yield
