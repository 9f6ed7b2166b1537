"""The operations that change a consumer group: one after another, each on a draft of the group's state.

An operation looks at the draft and writes records into it; the draft says at once what these say, while the group's
durable state stays as it is until they have committed. One that is refused leaves nothing behind. The running of
operations, and the steps after their records have committed or not, are executor.py's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from actors.coordinator.assignors.slices import SlicedAssignor
from actors.coordinator.consumer.messages import Refusal
from actors.coordinator.consumer.settings import ConsumerSettings, GroupSettings
from actors.coordinator.consumer.state import ConsumerState, KnownMember
from actors.coordinator.consumer.topics import TopicImage, existing, group_hash
from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import GroupChange
from actors.coordinator.groups.messages import OffsetCommitRequest
from actors.coordinator.turn import Now, Token

Answer = Any
"""A response, a Refusal, or AGAIN; None if nobody has asked."""

AGAIN: Final = object()
"""The answer of an operation that has ended the group: the one of another type in its place answers the request."""


OPERATION_WORK: Final = 10
"""About what an operation costs that changes nothing; a topic that is looked at counts 1."""
RECORD_WORK: Final = 5
CHANGED_MAX: Final = 10_000
"""The number of topics whose last change is kept."""


@dataclass(slots=True)
class Cluster:
    """The knowledge that all groups of a shard share of the world. The host keeps it true."""

    assignors: Mapping[str, SlicedAssignor]
    topics: TopicImage | None = None
    """None until the host has told it for the first time."""
    settings: ConsumerSettings = field(default_factory=ConsumerSettings)
    topics_made_at: int = -1
    """The version of the image in which topics were new last."""
    image_number: int = 0
    """The number of images that have been told."""
    changed_at: dict[str, int] = field(default_factory=dict)
    """The number of the image in which a topic, by name, was another one than before, or was no more."""
    all_changed_at: int = 0
    """The number of the image up to which any topic may have changed."""
    downgrade: Downgrade = field(default_factory=lambda: _stays)
    """Makes a group a classic one, where that is known here."""

    def note_topics(self, topics: TopicImage) -> None:
        """There are these topics now. Groups' subscriptions are not looked at here, for there may be many groups."""
        older, self.topics = self.topics, topics
        self.image_number += 1
        # Topics that were made while nobody looked count as new, too: expressions were resolved by the process that
        # served before.
        if older is None or any(older.named(name) is None for name in topics.names()):
            self.topics_made_at = topics.version
        if older is not None:
            names = {*older.names(), *topics.names()}
            changed = (name for name in names if older.named(name) != topics.named(name))
            self.changed_at.update(dict.fromkeys(changed, self.image_number))
        if len(self.changed_at) > CHANGED_MAX:
            self.changed_at.clear()
            self.all_changed_at = self.image_number

    def have_changed(self, state: ConsumerState, since: int) -> bool:
        """True if topics that a group subscribes to have changed since the image of this number."""
        if since in (self.image_number, 0):
            return since == 0
        if since < self.all_changed_at:
            return True
        changed_at = self.changed_at.get
        return any(changed_at(name, 0) > since for name in state.subscribed_topics())

    def forget_topics(self) -> None:
        """As if none had been told yet."""
        self.topics, self.topics_made_at = None, -1
        self.changed_at.clear()


@dataclass(frozen=True, slots=True)
class Cause:
    """The reason why a group's epoch was raised, for people."""

    reason: str
    member_id: str
    """Of several members all, with commas between them."""
    member: KnownMember | None


class SizedChange(GroupChange, Protocol):
    """A change by a record of a consumer group (records.py)."""

    @property
    def size(self) -> int:
        """The number of its partitions or names."""


class Successor(Protocol):
    """A group of another type whose record is being written."""

    def check_commit(self, request: OffsetCommitRequest) -> Error:
        """The error of a commit, as it will be when the record has committed."""


def _nothing() -> None:
    """The default of further steps: most operations have none."""


def _nothing_then(now: Now) -> None:
    """The same, in a later turn."""


class Drafted:
    """The state that changes are applied to before they have committed."""

    __slots__ = ("persisted",)

    def __init__(self, state: ConsumerState) -> None:
        self.persisted: Any = state

    def end(self) -> None:
        """The group has ended. The rest of the operation's changes is the record of a group of another type."""
        self.persisted = None


class Draft:
    """A group as one operation drafts it, with the changes and the further steps."""

    __slots__ = (
        "assignors",
        "becomes",
        "came",
        "cause",
        "changes",
        "configured",
        "downgrade",
        "drafted",
        "expels",
        "group_id",
        "handed_over",
        "has_looked_at_topics",
        "heard",
        "image_number",
        "latest",
        "max_size",
        "must_look_at_topics",
        "must_raise",
        "must_resolve",
        "noted",
        "now",
        "of_broker",
        "process",
        "regex_refresh_ms",
        "settings",
        "state",
        "took_over",
        "topics",
        "topics_made_at",
        "went",
        "work",
    )

    def __init__(
        self, group_id: str, base: ConsumerState, cluster: Cluster, now: Now, *, must_look_at_topics: bool = False
    ) -> None:
        assert cluster.topics is not None
        self.group_id = group_id
        self.state = base.draft()
        self.drafted = Drafted(self.state)
        self.changes: list[GroupChange] = []
        self.now = now
        """The time at which it began."""
        self.latest = now
        """The time at which it goes on, if it has paused."""
        self.topics = cluster.topics
        self.image_number = cluster.image_number
        self.assignors = cluster.assignors
        self.configured = cluster.settings.assignors
        self.max_size = cluster.settings.max_size
        self.of_broker = cluster.settings
        self.settings: GroupSettings = cluster.settings.of_group(group_id)
        self.must_look_at_topics = must_look_at_topics
        """True if topics may have changed since the group looked at them."""
        self.must_raise = False
        """True if a target has to be computed, whatever the operation changes."""
        self.topics_made_at = cluster.topics_made_at
        self.regex_refresh_ms = cluster.settings.regex_refresh_interval_ms
        self.must_resolve = False
        """True if the group's regular expressions are to be resolved."""
        self.has_looked_at_topics = False
        self.heard = ""
        """The member that has given a sign of life."""
        self.noted: Callable[[], None] = _nothing
        """The further steps if the operation succeeds, whether its records are written or not."""
        self.downgrade = cluster.downgrade
        self.becomes: Successor | None = None
        """The group of another type that it is when its records have committed; None if that has no members."""
        self.handed_over: Callable[[Now], None] = _nothing_then
        """The steps to be taken when a group of another type is in the place of this one."""
        self.cause: Cause | None = None
        """The cause of the group's new epoch, if it was raised."""
        self.process = ""
        """The process of the member that has asked for it, as that member describes it."""
        self.came: KnownMember | None = None
        """The member that has come."""
        self.took_over: tuple[str, KnownMember] | None = None
        """The id of a static member's former incarnation, and who has its place now."""
        self.went: list[KnownMember] = []
        """The members that have gone."""
        self.work = OPERATION_WORK
        """Its cost so far, in units of which a slice has thousands."""
        self.expels = False
        """True if these have not said that they leave."""

    def write(self, change: SizedChange) -> None:
        """Have a record written, if the operation succeeds."""
        self.write_of_another_type(change)
        self.work += RECORD_WORK + change.size // 2

    def write_of_another_type(self, change: GroupChange) -> None:
        """Have a record written that is none of a consumer group's."""
        change.apply(self.drafted)
        self.changes.append(change)

    @property
    def has_ended(self) -> bool:
        """True if the group is one of another type now."""
        return not isinstance(self.drafted.persisted, ConsumerState)

    def topics_hash(self) -> int:
        """The hash of all topics that somebody subscribes to."""
        topics = existing(self.state.subscribed_topics(), self.topics)
        self.work += len(topics)
        return group_hash(topics)


Downgrade = Callable[[Draft, Collection[str], str], Refusal | bool]
"""Makes a group a classic one without some of its members, which are removed for a reason, if all others are classic.

Returns whether it has; or why they cannot be removed at all.
"""


def _stays(draft: Draft, gone: Collection[str], reason: str) -> bool:
    """A group stays what it is."""
    return False


class Operation(ABC):
    """Something to do to a group. `token` is that of the request that asks for it; None if nobody does."""

    token: Token | None = None
    _request: Any = None

    @property
    def request(self) -> Any:
        """The request that asks for it."""
        return self._request

    @abstractmethod
    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        """Do it, and return the answer. Yields where other groups may be served in between."""

    def answer_of(self, refusal: Refusal) -> Answer:
        """The response that says why it was refused."""
        return None
