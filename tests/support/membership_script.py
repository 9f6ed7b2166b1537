"""A member of a group, driven by hand: no clock but the test's, no network but the answers given here.

Holds no tests.
"""

from __future__ import annotations

from typing import Any

from actors.client.errors import KafkaConnectionError, KafkaError, WakeupError
from actors.client.group.assignors import BUILT_IN
from actors.client.group.assignors.protocol import Assignment
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.membership import Membership
from actors.client.group.effects import CommitFirst, CommitOutcome, Event, Fail, RunListener, Send
from actors.client.net.metadata import MetadataView
from actors.client.records import Node, TopicPartition
from actors.wire.messages import FindCoordinatorResponse, HeartbeatResponse, JoinGroupResponse, SyncGroupResponse

NODE = Node(1, "broker", 9092)
OTHER = Node(2, "other", 9092)
ASIDE = "Heartbeat beside a JoinGroup"  # the kind of such a request


def tps(*names: str) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(t, int(n)) for t, n in (name.split("-") for name in names))


class Script:
    """A member with its world: answers what it sends, runs what it wants run, and writes everything down."""

    def __init__(self, *strategies: str, **settings: Any) -> None:
        names = strategies or ("range",)
        settings.setdefault("auto_commit", False)
        assignors = settings.pop("assignors", tuple(BUILT_IN[name]() for name in names))
        self.member = Membership(MembershipConfig("g", assignors, **settings))
        self.now = 1_000
        self.sent: list[Send] = []
        self.effects: list[Any] = []
        self.calls: list[tuple[Event, frozenset[TopicPartition]]] = []
        self.log: list[str] = []
        self.commit_outcome = CommitOutcome.DONE
        self.raises: dict[Event, BaseException] = {}
        self.member.poll(self.now)

    def settle(self) -> None:
        for effect in self.member.take_effects():
            self.effects.append(effect)
            if isinstance(effect, Send):
                self.sent.append(effect)
                self.log.append(type(effect.request).__name__)

    def poll(self, advance_ms: int = 0) -> None:
        """One turn of the user's thread, up to where it has to wait."""
        self.now += advance_ms
        self.member.poll(self.now)
        while (action := self.member.next_action(self.now)) is not None:
            if isinstance(action, Fail):
                self.settle()
                raise action.error
            if isinstance(action, RunListener):
                self.settle()
                self.calls.append((action.event, frozenset(action.partitions)))
                self.log.append(action.event.name)
                error = self.raises.pop(action.event, None)
                self.member.action_done(action, self.now, error)
                if isinstance(error, WakeupError):
                    break
            elif isinstance(action, CommitFirst):
                self.settle()
                self.log.append("commit")
                self.member.action_done(action, self.now, outcome=self.commit_outcome)
                if self.commit_outcome is CommitOutcome.LATER:
                    break
            else:
                self.member.action_done(action, self.now)
        self.settle()

    def tick(self, advance_ms: int = 0) -> None:
        self.now += advance_ms
        self.member.on_time(self.now)
        self.settle()

    def unanswered(self, kind: str) -> list[Send]:
        pending = self.member.pending()
        return [send for send in self.sent if send.id in pending and pending[send.id].kind.value == kind]

    def answer(self, kind: str, response: Any) -> None:
        (send,) = self.unanswered(kind)
        self.member.on_response(send.id, response, self.now)
        self.settle()

    def fail(self, kind: str, error: KafkaError | None = None) -> None:
        (send,) = self.unanswered(kind)
        self.member.on_failure(send.id, error or KafkaConnectionError(), self.now)
        self.settle()

    def count(self, kind: str) -> int:
        return sum(type(send.request).__name__ == kind + "Request" for send in self.sent)

    def last(self, kind: str) -> Any:
        return [send for send in self.sent if type(send.request).__name__ == kind + "Request"][-1]

    # --- what a coordinator would say ---

    def found(self, node: Node = NODE) -> None:
        self.answer("FindCoordinator", lookup_answer(node))

    def metadata(self, *, version: int = 1, **counts: int) -> None:
        self.member.on_metadata(MetadataView(version, counts, asked=None), self.now)
        self.settle()

    def joined(self, generation: int = 1, *, leader: bool = False, protocol: str | None = None, **fields: Any) -> None:
        me = fields.pop("member_id", "me")
        members = []
        if leader:
            request = self.last("JoinGroup").request
            chosen = request.protocols[0]
            members = [JoinGroupResponse.JoinGroupResponseMember(member_id=me, metadata=chosen.metadata)]
        self.answer(
            "JoinGroup",
            JoinGroupResponse(
                generation_id=generation,
                protocol_type=fields.pop("protocol_type", "consumer"),
                protocol_name=protocol or self.last("JoinGroup").request.protocols[0].name,
                leader=me if leader else "somebody",
                member_id=me,
                members=members,
                **fields,
            ),
        )

    def synced(self, *owned: str, **fields: Any) -> None:
        fields.setdefault("assignment", Assignment.of(tps(*owned)).encode())
        self.answer("SyncGroup", SyncGroupResponse(**fields))

    def join_error(self, code: int, **fields: Any) -> None:
        self.answer("JoinGroup", JoinGroupResponse(error_code=code, **fields))

    def sync_error(self, code: int) -> None:
        self.answer("SyncGroup", SyncGroupResponse(error_code=code))

    def heartbeat(self, code: int = 0) -> None:
        """Let the heartbeat fall due and answer it."""
        deadline = self.member.live.next_heartbeat_ms
        self.tick(max(0, deadline - self.now))
        self.answer("Heartbeat", HeartbeatResponse(error_code=code))

    def stable(self, *owned: str, generation: int = 1) -> Script:
        """All the way to an assignment."""
        if not self.member.subscribed:
            self.member.subscribe(["t"])
        self.metadata(t=4)
        self.poll()
        if self.unanswered("FindCoordinator"):
            self.found()
            self.poll()
        self.joined(generation)
        self.synced(*owned)
        self.poll()
        assert self.member.owned == tps(*owned)
        return self


def lookup_answer(node: Node = NODE, code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key="g", node_id=node.id, host=node.host, port=node.port, error_code=code
            )
        ]
    )


def looking() -> Script:
    script = Script()
    script.member.subscribe(["t"])
    script.metadata(t=4)
    script.poll()
    return script


def joining(*strategies: str, **settings: Any) -> Script:
    """A member whose first JoinGroup is out."""
    script = Script(*strategies, **settings)
    script.member.subscribe(["t"])
    script.metadata(t=4)
    script.poll()
    script.found()
    script.poll()
    assert script.count("JoinGroup") == 1
    return script


def syncing(*strategies: str, **settings: Any) -> Script:
    script = joining(*strategies, **settings)
    script.joined()
    return script


def following_a_pattern() -> Script:
    """A member that follows what begins with "t", knows of t1, and has been let in."""
    script = Script()
    script.member.subscribe_pattern(lambda topic: topic.startswith("t"))
    script.metadata(t1=1)
    script.poll()
    script.found()
    script.poll()
    script.metadata(t1=1, version=2)
    script.poll()
    script.joined()
    return script


def part(script: Script) -> None:
    for action in script.member.farewell():
        assert isinstance(action, RunListener)
        script.calls.append((action.event, frozenset(action.partitions)))
    script.member.unsubscribe(script.now, "close")
    script.settle()
