"""A consumer group as its records say it is, and what follows from them: owners, votes, how many name a topic.

Each method that changes it does what one record says, with regard to nothing but that record's key. So the state is the
same whether a whole log was replayed or only the last record of each key, in whatever order: compaction may do what it
likes. Only the end of a group (`records.GroupEpoch`) has its place.

The durable state of a group is one of these. A `draft` is another, laid over it: operations change that, and what
they have decided is replayed on the durable one when it has committed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, MutableMapping, Set
from itertools import repeat
from typing import ClassVar, NamedTuple, TypeVar

from actors.coordinator.consumer.layered import Layered, add_all, has_none, remove_all
from actors.coordinator.consumer.values import CONSUMER, NEW, Current, MemberMetadata, MemberState, Partitions, Resolved

FIRST_EPOCH = 1
TopicPartition = tuple[bytes, int]
K = TypeVar("K", bound=Hashable)
_NONE: Mapping[int, int] = {}


class KnownMember(NamedTuple):
    """A member, as those are shown it who know no type of group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    process: str = ""


def known(member_id: str, member: MemberMetadata, process: str = "") -> KnownMember:
    """A member, as far as others know it; what it says of its process is in no record."""
    return KnownMember(member_id, member.instance_id, member.client_id, member.client_host, process)


class ConsumerState:
    """The state of one group. Its mappings are to be read; only records change them."""

    group_type: ClassVar[str] = CONSUMER
    protocol_type: ClassVar[str] = CONSUMER

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp_ms",
        "classic_members",
        "contested",
        "current",
        "group_epoch",
        "has_legacy_topics",
        "instances",
        "metadata",
        "metadata_hash",
        "names",
        "owners",
        "protocols",
        "regexes",
        "resolved",
        "settled",
        "targets",
        "votes",
    )

    def __init__(self, base: ConsumerState | None = None) -> None:
        """The state of a group without records; or a draft over `base`."""
        self.group_epoch: int = FIRST_EPOCH if base is None else base.group_epoch
        self.metadata_hash: int = 0 if base is None else base.metadata_hash
        self.assignment_epoch: int = FIRST_EPOCH if base is None else base.assignment_epoch
        self.assignment_timestamp_ms: int = 0 if base is None else base.assignment_timestamp_ms
        """The wall time at the end of the last computation of a target; 0 if the next one need not wait."""
        self.has_legacy_topics: bool = False if base is None else base.has_legacy_topics
        self.classic_members: int = 0 if base is None else base.classic_members
        # By member id. Those with metadata are the members; a record of another kind may be left without it.
        self.metadata: MutableMapping[str, MemberMetadata] = {} if base is None else Layered(base.metadata)
        self.current: MutableMapping[str, Current] = {} if base is None else Layered(base.current)
        self.targets: MutableMapping[str, Partitions] = {} if base is None else Layered(base.targets)
        self.resolved: MutableMapping[str, Resolved] = {} if base is None else Layered(base.resolved)
        # The following are derived from these.
        self.owners: MutableMapping[TopicPartition, str] = {} if base is None else Layered(base.owners)
        """The member that lists a partition as assigned or pending. One that is not here is free."""
        self.contested: set[Hashable] = set() if base is None else set(base.contested)
        """Partitions and instance ids that several have had: a log in which records are missing may say so."""
        self.instances: MutableMapping[str, str] = {} if base is None else Layered(base.instances)
        """The member ids of static members."""
        self.names: MutableMapping[str, int] = {} if base is None else Layered(base.names)
        """The number of members that name a topic."""
        self.regexes: MutableMapping[str, int] = {} if base is None else Layered(base.regexes)
        """The number of members that have a regular expression."""
        self.votes: MutableMapping[str, int] = {} if base is None else Layered(base.votes)
        """The number of members that wish for an assignor."""
        self.protocols: MutableMapping[str, int] = {} if base is None else Layered(base.protocols)
        """The number of classic members that support a protocol."""
        self.settled: MutableMapping[int, int] = {} if base is None else Layered(base.settled)
        """The number of members that are stable at an epoch."""

    def draft(self) -> ConsumerState:
        """The same, to be changed while this one stays as it is."""
        return ConsumerState(self)

    # -- to look at

    def current_of(self, member_id: str) -> Current:
        """The partitions that a member holds, and its epochs. One that has no record of it is new."""
        return self.current.get(member_id, NEW)

    def is_reconciled(self, member_id: str) -> bool:
        """True if a member has all that its target says."""
        current = self.current_of(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.assignment_epoch

    def is_free(self, partition: TopicPartition, member_id: str) -> bool:
        """True if no other member lists a partition. A static member that is away for a while still does."""
        return self.owners.get(partition, member_id) == member_id

    @property
    def persisted_state(self) -> str:
        """Kafka's name of the state, which is never stored."""
        if not self.metadata:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.settled.get(self.assignment_epoch, 0) == len(self.metadata) else "Reconciling"

    @property
    def members(self) -> tuple[KnownMember, ...]:
        return tuple(known(*each) for each in tuple(self.metadata.items()))

    @property
    def is_homogeneous(self) -> bool:
        """True if all members subscribe to the same: all name the same, or have one regular expression and no names."""
        members = len(self.metadata)
        if self.regexes:
            return not self.names and list(self.regexes.values()) == [members]
        return all(count == members for count in self.names.values())

    def topics_of(self, member: MemberMetadata) -> frozenset[str]:
        """The names of the topics that a member subscribes to, whether there are such topics or not."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.names if resolved is None else member.names | resolved.topics

    def subscribes(self, topic: str) -> bool:
        """True if a member names a topic, or a regular expression was found to match it."""
        return topic in self.names or any(topic in each.topics for each in self.resolved.values())

    def subscribed_topics(self) -> frozenset[str]:
        """The names of all that somebody subscribes to."""
        return frozenset(self.names).union(*(each.topics for each in self.resolved.values()))

    def leftovers(self) -> Iterator[str]:
        """The ids of members of which some records were lost: there is no metadata, so they are none."""
        return (member_id for member_id in {**self.current, **self.targets} if member_id not in self.metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConsumerState) and _plain(self) == _plain(other)

    __hash__ = None  # type: ignore[assignment]

    # -- what records say

    def put_group_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.group_epoch, self.metadata_hash = epoch, metadata_hash

    def put_assignment_epoch(self, epoch: int | None, timestamp_ms: int) -> None:
        """None: as if no target had ever been computed."""
        self.assignment_epoch = FIRST_EPOCH if epoch is None else epoch
        self.assignment_timestamp_ms = 0 if epoch is None else timestamp_ms

    def put_metadata(self, member_id: str, member: MemberMetadata | None) -> None:
        """The newest record to name an instance id has it, as `put_current` has it of partitions."""
        older = self.metadata.get(member_id)
        if older is not None:
            self._settle(member_id, -1)
            self._count_metadata(older, -1)
            del self.metadata[member_id]
            if older.instance_id is not None and self.instances.get(older.instance_id) == member_id:
                self._release_instance(older.instance_id)
        if member is None:
            return
        self.metadata[member_id] = member
        self._settle(member_id, 1)
        self._count_metadata(member, 1)
        if member.instance_id is not None:
            if member.instance_id in self.instances:
                self.contested.add(member.instance_id)
            self.instances[member.instance_id] = member_id

    def _release_instance(self, instance_id: str) -> None:
        members = self.metadata.items() if instance_id in self.contested else ()
        self._hand_over(
            self.instances, instance_id, [each for each, member in members if member.instance_id == instance_id]
        )

    def _count_metadata(self, member: MemberMetadata, by: int) -> None:
        for name in member.names:
            _count(self.names, name, by)
        if member.regex:
            _count(self.regexes, member.regex, by)
        if member.assignor is not None:
            _count(self.votes, member.assignor, by)
        if member.classic is not None:
            self.classic_members += by
            for name in {name for name, _ in member.classic.protocols}:
                _count(self.protocols, name, by)

    def put_target(self, member_id: str, target: Partitions | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def put_current(self, member_id: str, current: Current | None) -> None:
        """The newest record to name a partition owns it.

        A member that gives back a partition that another has by now frees nothing.
        """
        counted = member_id in self.metadata
        if counted:
            self._settle(member_id, -1)
        older = self.current.pop(member_id, None)
        gone, come = _listed(older, but=current), _listed(current, but=older)
        if self.contested:
            for at in gone:
                if self.owners.get(at) == member_id:
                    self._release_partition(at)
        else:
            remove_all(self.owners, gone)
        if current is not None:
            self.current[member_id] = current
            self._claim(member_id, _listed(current) if self.contested else come)
        if counted:
            self._settle(member_id, 1)

    def _claim(self, member_id: str, partitions: Collection[TopicPartition]) -> None:
        if has_none(self.owners, partitions):
            add_all(self.owners, partitions, member_id)
            return
        self.contested.update(at for at in partitions if self.owners.get(at, member_id) != member_id)
        self.owners.update(dict.fromkeys(partitions, member_id))

    def _release_partition(self, at: TopicPartition) -> None:
        members = self.current.items() if at in self.contested else ()
        self._hand_over(self.owners, at, [each for each, current in members if at in _listed(current)])

    def _hand_over(self, held: MutableMapping[K, str], at: K, others: list[str]) -> None:
        """Nobody has this any more, or the last of the others that have said they have."""
        if others:
            held[at] = others[-1]
        else:
            del held[at]
            self.contested.discard(at)

    def _settle(self, member_id: str, by: int) -> None:
        current = self.current_of(member_id)
        if current.state is MemberState.STABLE:
            _count(self.settled, current.epoch, by)

    def put_resolved(self, regex: str, resolved: Resolved | None) -> None:
        if resolved is None:
            self.resolved.pop(regex, None)
        else:
            self.resolved[regex] = resolved


def _count(counts: MutableMapping[K, int], what: K, by: int) -> None:
    """Count `what`; nothing that is counted 0 times stays."""
    count = counts.get(what, 0) + by
    if count:
        counts[what] = count
    else:
        counts.pop(what, None)


def _listed(current: Current | None, but: Current | None = None) -> list[TopicPartition]:
    """The partitions that a member lists, without those that `but` lists."""
    if current is None:
        return []
    found: list[TopicPartition] = []
    for topic_id in {*current.assigned, *current.pending}:
        numbers = _numbers(current, topic_id)
        found += zip(repeat(topic_id), numbers if but is None else numbers - _numbers(but, topic_id))
    return found


def _numbers(current: Current, topic_id: bytes) -> Set[int]:
    assigned, pending = current.assigned.get(topic_id), current.pending.get(topic_id)
    if assigned is None or pending is None:
        return (assigned or pending or _NONE).keys()
    return assigned.keys() | pending.keys()


def _plain(state: ConsumerState) -> list[object]:
    values = (getattr(state, name) for name in ConsumerState.__slots__ if name != "contested")
    return [dict(value) if isinstance(value, MutableMapping) else value for value in values]
