"""A member of a group as its consumer sees it, whichever group protocol it speaks.

A member is a state machine without I/O. It is used by three parties, each of which knows only its own part of it:

    Subscriber   the user's thread: subscribes, polls, carries out the member's actions, leaves    `consumer`
    Machine      the event loop: carries out effects, hands in answers, metadata and time          `driver`
    Committer    a commit: made as whom, sent as whom, and what a refusal means                    `offsets`

`Member` is all of it. `protocols` has the table of those that there are: `classic` and `consumer_protocol`.

Calls carry `now_ms` (monotonic). Others may use a member's parts, too: `holdings` (the topics it wants and the
partitions it owns), `lookup` (the coordinator), `outbox` (requests in flight), `actions` (the queue for the user's
thread), `liveness` (clocks), `stats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from actors.client.errors import KafkaError
from actors.client.group.effects import Action, CommitOutcome, Effect
from actors.client.group.generation import Generation
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.stats import Stats
from actors.client.net.metadata import MetadataView
from actors.client.records import GroupMembershipOperation as Parting
from actors.client.records import Node, TopicPartition
from actors.client.settings import ConsumerConfig
from actors.wire.messages import ApiMessage


class Group(Protocol):
    """The standing of a member. Everybody may ask, and any thread."""

    @property
    def group_id(self) -> str:
        """The id of the group; "" without one."""

    @property
    def generation(self) -> Generation:
        """The member's place in the group at present."""

    @property
    def coordinator(self) -> Node | None:
        """The group's coordinator, if it is known."""

    @property
    def subscribed(self) -> bool:
        """True if the group gives out partitions to this member, or will; else the program assigns them by hand."""

    def may_deliver(self, now_ms: int) -> bool:
        """True if records may be handed out: always without a subscription, else while no other can own them."""


class Subscriber(Group, Protocol):
    """The member as the user's thread uses it."""

    @property
    def stats(self) -> Stats:
        """The counts of events so far."""

    @property
    def state(self) -> Enum:
        """For people: its state, by the name its protocol has for it."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics subscribed to, by name, or by pattern as far as they are known."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that the group has given this member."""

    @property
    def wants_all_topics(self) -> bool:
        """True if it needs the metadata of all topics, as for a pattern that it matches itself."""

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics whose metadata it needs."""

    @property
    def asks_coordinator(self) -> bool:
        """True if the coordinator has yet to answer a request."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """From the next poll on, this member wants these topics."""

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        """From the next poll on, this member wants every topic `matches` says yes to."""

    def subscribe_expression(self, expression: str) -> None:
        """From the next poll on, this member wants the topics that the coordinator finds by this expression.

        Raises IllegalStateError in a protocol in which coordinators look for no topics.
        """

    def request_rejoin(self, reason: str) -> None:
        """Have the group rebalance. A protocol in which a member cannot ask for that ignores it."""

    def poll(self, now_ms: int) -> None:
        """The user polls. It counts even when nothing else can be done."""

    def next_action(self, now_ms: int) -> Action | None:
        """The next action of the user's thread; None when it can only wait or read records.

        Revoked and lost partitions, new ones and assignments are told by actions alone, so that nobody is given them
        away before the listener has heard of it.
        """

    def action_done(
        self,
        action: Action,
        now_ms: int,
        error: BaseException | None = None,
        outcome: CommitOutcome = CommitOutcome.DONE,
    ) -> None:
        """The action that `next_action` gave was carried out, or raised `error`. `Fail` needs no such call."""

    def user_deadline(self) -> int | None:
        """The time (monotonic ms) at which `next_action` may change though nothing arrives; None: never."""

    def awaits_poll(self, now_ms: int) -> bool:
        """True if the next poll would take the group a step further."""

    def farewell(self) -> list[Action]:
        """The last actions of the user's thread before `unsubscribe`: its listener hears of everything it gives up."""

    def unsubscribe(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        """Leave the group, in one attempt, and want nothing any more. A static member only stops (KIP-345).

        `parting` may say otherwise (KIP-1092).
        """


class Machine(Group, Protocol):
    """The member as the event loop uses it."""

    @property
    def lookup(self) -> CoordinatorLookup:
        """Looks the coordinator up."""

    def take_effects(self) -> list[Effect]:
        """The effects to be carried out since the last call, in order."""

    def on_response(self, request_id: int, response: ApiMessage, now_ms: int) -> None:
        """The answer to the `Send` with this id. Answers to what was given up meanwhile change nothing."""

    def on_failure(self, request_id: int, error: KafkaError, now_ms: int) -> None:
        """No answer came: the connection was lost, time ran out, or the broker serves no version that will do."""

    def on_metadata(self, view: MetadataView, now_ms: int) -> None:
        """Metadata was refreshed."""

    def on_time(self, now_ms: int) -> None:
        """Do what is due, such as a heartbeat."""

    def next_deadline(self) -> int | None:
        """The time to call `on_time` next; None while nothing will be due."""

    def find_coordinator(self, now_ms: int) -> None:
        """Look for the coordinator unless it is known, being looked for, or not to be looked for yet."""

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""

    def fail(self, error: BaseException, now_ms: int) -> None:
        """The background thread failed: the next action is to raise this."""


class Committer(Group, Protocol):
    """The member as a commit uses it."""

    @property
    def lookup(self) -> CoordinatorLookup:
        """Is told when the coordinator has answered."""

    @property
    def awaits_others(self) -> bool:
        """True if the coordinator has a request that it answers when other members have sent theirs.

        Other requests over the same connection are answered after that, if the broker is Kafka's or ours.
        """

    @property
    def instance_id(self) -> str | None:
        """The id of a static member (KIP-345)."""

    @property
    def commits_from(self) -> int:
        """The first version of OffsetCommit that may carry this member's commits."""

    def commits_as(self, now_ms: int) -> Generation:
        """The place that a commit is made in.

        Raises RebalanceInProgressError or CommitFailedError if this member may not commit now.
        """

    def sends_as(self, made: Generation) -> Generation:
        """The place that a commit made in `made` is sent in.

        A classic member sends it as it was made, because its partitions may have other owners in a later generation. A
        member with an epoch of its own takes the newest (KIP-848): it is fenced by partition.
        """

    def fetches_as(self) -> Generation:
        """The place that committed offsets are asked for in; none, if the coordinator is not to check it."""

    def commit_refused(self, code: int, made: Generation, where: str) -> KafkaError | None:
        """The coordinator refused a commit made in `made`: the error to raise, or None if it is not about membership.

        The member takes notice: it may have been expelled or fenced. `where` opens the error's text.
        """

    def coordinator_lost(self, node: Node | None, now_ms: int, *, drop: bool = False) -> None:
        """Forget the coordinator if it is `node`; if another has replaced it already, nothing changes."""


class Member(Subscriber, Machine, Committer, Protocol):
    """All that a consumer needs of its membership."""


class MakeMember(Protocol):
    """Makes a member of a consumer's settings. `pid` is its process's id, and pauses are multiplied with `jitter()`.

    `new_member_id` makes an id that nobody else has, for a protocol in which a member chooses its own.
    """

    def __call__(
        self, config: ConsumerConfig, pid: int, jitter: Callable[[], float], new_member_id: Callable[[], str]
    ) -> Member: ...
