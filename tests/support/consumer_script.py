"""A member of a consumer group, driven by hand: no clock but the test's, no network but the answers given here.

Topic `t` has the id T, `u` has U. Partitions are written `t-0`. Holds no tests.
"""

from __future__ import annotations

from typing import Any

from actors.client.errors import KafkaConnectionError, KafkaError, WakeupError
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.membership import Membership
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Action, CommitFirst, CommitOutcome, Event, Fail, RunListener, Send, WantMetadata
from actors.client.group.outbox import Lookup
from actors.client.net.metadata import MetadataView
from actors.client.records import GroupMembershipOperation, Node, TopicPartition
from actors.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.support.membership_script import NODE, lookup_answer, tps

ID = {"t": b"T" * 16, "u": b"U" * 16}
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
INTERVAL_MS = 5_000

Answer = ConsumerGroupHeartbeatResponse
Beat = ConsumerGroupHeartbeatRequest


def view(version: int = 1, *, every_topic: bool = False, **counts: int) -> MetadataView:
    """Metadata of these topics."""
    asked = None if every_topic else frozenset(counts)
    return MetadataView(version, counts, asked=asked, ids={topic: ID[topic] for topic in counts})


def assignment(*names: str) -> Answer.Assignment:
    """An assignment as an answer has it."""
    topics: dict[bytes, list[int]] = {}
    for tp in sorted(tps(*names)):
        topics.setdefault(ID[tp.topic], []).append(tp.partition)
    made = [Answer.TopicPartitions(topic_id=topic_id, partitions=ns) for topic_id, ns in topics.items()]
    return Answer.Assignment(topic_partitions=made)


def owned_in(beat: Beat) -> frozenset[TopicPartition] | None:
    """The partitions that a heartbeat says are owned; None if it says nothing of them."""
    names = {topic_id: topic for topic, topic_id in ID.items()}
    if beat.topic_partitions is None:
        return None
    return frozenset(TopicPartition(names[each.topic_id], n) for each in beat.topic_partitions for n in each.partitions)


def says(beat: Beat) -> set[str]:
    """The optional fields that a heartbeat has."""
    names = ("instance_id", "rack_id", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
    found = {name for name in (*names, "topic_partitions") if getattr(beat, name) is not None}
    return found | ({"rebalance_timeout_ms"} if beat.rebalance_timeout_ms != -1 else set())


class Script:
    """A member with its world: answers what it sends, runs what it wants run, and writes everything down."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("auto_commit", False)
        self.member = Membership(MemberConfig("g", **settings), MEMBER)
        self.now = 1_000
        self.sent: list[Send] = []
        self.metadata_wanted = 0
        self.calls: list[tuple[Event, frozenset[TopicPartition]]] = []
        self.log: list[str] = []
        self.commit_outcome = CommitOutcome.DONE
        self.raises: dict[Event, BaseException] = {}
        self.during: dict[Event, Any] = {}
        self.member.poll(self.now)

    @property
    def state(self) -> MemberState:
        return self.member.state

    def settle(self) -> None:
        for effect in self.member.take_effects():
            if isinstance(effect, Send):
                self.sent.append(effect)
            elif isinstance(effect, WantMetadata):
                self.metadata_wanted += 1

    def poll(self, advance_ms: int = 0) -> None:
        """One turn of the user's thread, up to where it has to wait."""
        self.now += advance_ms
        self.member.poll(self.now)
        while (action := self.member.next_action(self.now)) is not None:
            self.settle()
            if isinstance(action, Fail):
                raise action.error
            if not self.carry_out(action):
                break
        self.settle()

    def carry_out(self, action: Action) -> bool:
        """Carry out an action. False: the rest is for a later poll."""
        if isinstance(action, RunListener):
            self.calls.append((action.event, frozenset(action.partitions)))
            self.log.append(action.event.name)
            if action.event in self.during:
                self.during.pop(action.event)()
            error = self.raises.pop(action.event, None)
            self.member.action_done(action, self.now, error)
            return not (isinstance(error, WakeupError) and action.event is Event.ASSIGNED)
        if isinstance(action, CommitFirst):
            self.log.append("commit")
            self.member.action_done(action, self.now, outcome=self.commit_outcome)
            return self.commit_outcome is not CommitOutcome.LATER
        self.log.append("apply")
        self.member.action_done(action, self.now)
        return True

    def tick(self, advance_ms: int = 0) -> None:
        self.now += advance_ms
        self.member.on_time(self.now)
        self.settle()

    def metadata(self, version: int = 1, **counts: Any) -> None:
        self.member.on_metadata(view(version, **counts), self.now)
        self.settle()

    # --- requests and answers ---

    def in_flight(self, *kinds: Any) -> list[Send]:
        pending = self.member.pending()
        return [send for send in self.sent if send.id in pending and pending[send.id].kind in kinds]

    @property
    def beats(self) -> list[Beat]:
        """All heartbeats so far."""
        return [send.request for send in self.sent if isinstance(send.request, Beat)]

    @property
    def beat(self) -> Beat:
        """The last heartbeat."""
        return self.beats[-1]

    def found(self, node: Node = NODE) -> None:
        (send,) = self.in_flight(Lookup.COORDINATOR)
        self.member.on_response(send.id, lookup_answer(node), self.now)
        self.settle()

    def answer(
        self,
        epoch: int = 0,
        *owned: str,
        code: int = 0,
        empty: bool = False,
        interval: int = INTERVAL_MS,
        why: Any = None,
    ) -> None:
        """Answer the heartbeat in flight. With partitions, or `empty`, there is an assignment."""
        (send,) = self.in_flight(*BEATS)
        response = Answer(
            error_code=code,
            error_message=why,
            member_id=None if code else MEMBER,
            member_epoch=0 if code else epoch,
            heartbeat_interval_ms=0 if code else interval,
            assignment=assignment(*owned) if owned or empty else None,
        )
        self.member.on_response(send.id, response, self.now)
        self.settle()

    def left(self, code: int = 0) -> None:
        """Answer the last heartbeat of a member that leaves."""
        (send,) = self.in_flight(Kind.LEAVE)
        epoch = send.request.member_epoch  # type: ignore[attr-defined]
        self.member.on_response(send.id, Answer(error_code=code, member_epoch=epoch), self.now)
        self.settle()

    def fail(self, error: KafkaError | None = None) -> None:
        """The heartbeat in flight gets no answer."""
        (send,) = self.in_flight(*BEATS)
        self.member.on_failure(send.id, error or KafkaConnectionError(), self.now)
        self.settle()

    def next_beat(self) -> Beat:
        """Let time pass until the next heartbeat is sent."""
        before = len(self.beats)
        deadline = self.member.next_deadline()
        assert deadline is not None
        self.tick(max(0, deadline - self.now))
        assert len(self.beats) == before + 1
        return self.beat

    def part(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        for action in self.member.farewell():
            assert isinstance(action, RunListener)
            self.calls.append((action.event, frozenset(action.partitions)))
        self.member.unsubscribe(self.now, "close", operation)
        self.settle()

    # --- ways ---

    def joining(self, *topics: str) -> Script:
        """A member whose join is in flight."""
        self.member.subscribe(topics or ("t",))
        self.metadata(t=6, u=6)
        self.poll()
        self.found()
        assert (self.state, self.beat.member_epoch) == (MemberState.JOINING, 0)
        return self

    def reconciling(self, *owned: str, epoch: int = 2) -> Script:
        """One that has received its first assignment."""
        self.joining()
        self.answer(epoch, *owned, empty=True)
        assert self.state is MemberState.RECONCILING
        return self

    def acknowledging(self, *owned: str, epoch: int = 2) -> Script:
        """One that has taken it over, while a heartbeat without news is in flight."""
        self.reconciling(*owned, epoch=epoch)
        self.next_beat()
        self.poll()
        assert self.state is MemberState.ACKNOWLEDGING
        return self

    def stable(self, *owned: str, epoch: int = 2) -> Script:
        """One whose acknowledgement was answered."""
        self.reconciling(*owned, epoch=epoch)
        self.poll()
        self.answer(epoch)
        assert (self.state, self.member.owned) == (MemberState.STABLE, tps(*owned))
        return self

    def in_state(self, state: MemberState) -> Script:
        """A member in this state, owning t-0 and t-1 where it owns anything, with a heartbeat in flight where it beats.

        LEAVING is passed within one call.
        """
        match state:
            case MemberState.UNSUBSCRIBED:
                self.member.subscribe(["t"])
                self.metadata(t=6, u=6)
            case MemberState.JOINING:
                self.joining()
            case MemberState.RECONCILING:
                self.stable("t-0", "t-1")
                self.next_beat()
                self.answer(2, "t-0", "t-2")
                self.next_beat()
            case MemberState.ACKNOWLEDGING:
                self.acknowledging("t-0", "t-1")
            case MemberState.STABLE:
                self.stable("t-0", "t-1")
                self.next_beat()
            case MemberState.PREPARE_LEAVING:
                self.stable("t-0", "t-1")
                self.next_beat()
                self.member.farewell()
            case MemberState.FENCED:
                self.stable("t-0", "t-1")
                self.next_beat()
                self.answer(code=110)
            case MemberState.STALE:
                self.stable("t-0", "t-1")
                self.tick(self.member.config.max_poll_interval_ms)
            case MemberState.FATAL:
                self.stable("t-0", "t-1")
                self.next_beat()
                self.answer(code=112)
            case MemberState.LEAVING:
                raise AssertionError("nobody sees a member in LEAVING")
        assert self.state is state
        return self
