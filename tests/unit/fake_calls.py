"""A cluster in memory that answers what the commands ask; it stands for any Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from actors.cli.calls import Broker, ListedGroup, NewTopic, PartitionState, Topic
from actors.cli.group_rows import Committed, Group, Partition
from actors.cli.reset import Log


class KafkaError(Exception):
    """The clients' root error, by its name."""


@dataclass
class FakeCalls:
    """Public fields are the cluster's state; `bootstrap` is what the command connected to."""

    topic_list: dict[str, Topic] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    created: list[NewTopic] = field(default_factory=list)
    group_list: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, dict[Partition, Committed]] = field(default_factory=dict)
    log_list: dict[Partition, Log] = field(default_factory=dict)
    times: dict[Partition, int] = field(default_factory=dict)
    asked_time_ms: int | None = None
    bootstrap: str = ""

    @contextmanager
    def connect(self, bootstrap_server: str, timeout_ms: int) -> Iterator[FakeCalls]:
        self.bootstrap = bootstrap_server
        yield self

    def add_topic(self, name: str, partitions: int, *, internal: bool = False, isr: Sequence[int] = (0, 1)) -> None:
        states = tuple(PartitionState(n, isr[0] if isr else -1, (0, 1), tuple(isr)) for n in range(partitions))
        self.topic_list[name] = Topic(name, internal, "id-" + name, states)

    def topics(self, names: Sequence[str] | None = None) -> list[Topic]:
        return [topic for name, topic in self.topic_list.items() if names is None or name in names]

    def topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        return {name: self.configs.get(name, {}) for name in names}

    def create_topic(self, topic: NewTopic) -> None:
        if topic.name in self.topic_list:
            raise KafkaError(f"TOPIC_ALREADY_EXISTS (36): {topic.name}")
        self.created.append(topic)
        self.add_topic(topic.name, topic.partitions or 1)

    def add_partitions(self, topic: str, count: int) -> None:
        self.add_topic(topic, count)

    def alter_topic_configs(self, topic: str, changed: Mapping[str, str], removed: Iterable[str]) -> None:
        own = {**self.configs.get(topic, {}), **changed}
        self.configs[topic] = {key: value for key, value in own.items() if key not in set(removed)}

    def delete_topic(self, topic: str) -> None:
        del self.topic_list[topic]

    def groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
        wanted = {state.lower() for state in states}
        found = [group for group in self.group_list.values() if not wanted or group.state.lower() in wanted]
        return [ListedGroup(group.name, group.state, group.protocol_type, "Classic") for group in found]

    def describe_groups(self, names: Sequence[str]) -> list[Group]:
        return [self.group_list.get(name, Group(name, "Dead", "", "")) for name in names]

    def committed(self, group: str) -> dict[Partition, Committed]:
        return self.offsets.get(group, {})

    def logs(self, partitions: Sequence[Partition]) -> dict[Partition, Log]:
        return {each: self.log_list[each] for each in partitions if each in self.log_list}

    def offsets_at(self, partitions: Sequence[Partition], time_ms: int) -> dict[Partition, int]:
        self.asked_time_ms = time_ms
        return {each: self.times[each] for each in partitions if each in self.times}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        mine = self.offsets.setdefault(group, {})
        mine.update({partition: Committed(offset) for partition, offset in offsets.items()})

    def delete_group(self, group: str) -> None:
        if self.group_list[group].members:
            raise KafkaError("NON_EMPTY_GROUP (68): the group still has members")
        del self.group_list[group]

    def delete_offsets(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, str | None]:
        held = {each for member in self.group_list[group].members for each in member.partitions}
        return {each: "GROUP_SUBSCRIBED_TO_TOPIC" if each in held else None for each in partitions}

    def coordinator(self, group: str) -> Broker:
        return Broker(1, "host-1", 9093)

    def unled(self, topic: str) -> None:
        """Take the leader of every partition away."""
        old = self.topic_list[topic]
        states = tuple(replace(each, leader=-1, isr=()) for each in old.partitions)
        self.topic_list[topic] = replace(old, partitions=states)
