"""Random histories of a member of a consumer group: it acknowledges no lie, loses no partition, and finds its way back.

A listener that raises, a commit without an answer, a coordinator that fences, moves or is silent: each may come at any
time, in the middle of a callback, too.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

from actors.client.errors import KafkaError, WakeupError
from actors.client.group.consumer_protocol.beats import BEATS, Kind
from actors.client.group.consumer_protocol.standing import MemberState
from actors.client.group.effects import Action, CommitFirst, CommitOutcome, Event, RunListener
from actors.client.group.outbox import Lookup
from actors.client.records import GroupMembershipOperation, TopicPartition
from tests.support.consumer_script import Answer, Beat, Script, owned_in
from tests.support.membership_script import NODE, tps

ALL = [f"{topic}-{n}" for topic in "tu" for n in range(4)]
PATIENCE_MS = 20_000
REFUSALS = [14, 15, 16, 25, 29, 110]


class History(Script):
    """A member whose world acts at random. `heard` are the partitions that the listener believes to have."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.heard: set[TopicPartition] = set()
        self.epoch = 1
        self.checked = 0
        self.calm = False
        static = self.chance.choice([None, "i"])
        super().__init__(
            auto_commit=self.chance.random() < 0.5, group_instance_id=static, max_poll_interval_ms=PATIENCE_MS
        )
        self.member.subscribe(["t", "u"])

    # --- invariants ---

    def settle(self) -> None:
        super().settle()
        assert len(self.in_flight(*BEATS)) <= 1
        for send in self.sent[self.checked :]:
            self.check(send.request)
        self.checked = len(self.sent)

    def check(self, request: object) -> None:
        """A heartbeat that names owned partitions names all that the listener has not given up."""
        if isinstance(request, Beat) and request.member_epoch > 0:
            owned = owned_in(request)
            assert owned is None or self.heard <= owned

    def timed(self) -> None:
        """A member that may send has a timer."""
        member = self.member
        if member.standing.beating and member.coordinator and not self.in_flight(*BEATS, Kind.LEAVE):
            assert member.next_deadline() is not None

    # --- the user's thread ---

    def carry_out(self, action: Action) -> bool:
        self.settle()
        if not self.calm:
            self.disturb(action)
        if isinstance(action, RunListener):
            self.hear(action)
        return super().carry_out(action)

    def disturb(self, action: Action) -> None:
        if isinstance(action, CommitFirst):
            self.commit_outcome = self.chance.choice(list(CommitOutcome))
        elif isinstance(action, RunListener):
            if self.chance.random() < 0.1:
                self.raises[action.event] = self.chance.choice([ValueError("no"), WakeupError()])
            if self.chance.random() < 0.15:
                self.during[action.event] = self.chance.choice(
                    [lambda: self.reply(110), self.reply, lambda: self.tick(PATIENCE_MS)]
                )

    def hear(self, action: RunListener) -> None:
        partitions = set(action.partitions)
        fails = action.event in self.raises
        if action.event is Event.ASSIGNED:
            self.heard |= set() if fails else partitions
        elif action.event is Event.LOST or not fails:
            self.heard -= partitions

    def leave(self) -> None:
        self.calls.clear()
        self.part(self.chance.choice(list(GroupMembershipOperation)))
        for _, partitions in self.calls:
            self.heard -= partitions
        assert self.heard == set()

    # --- the coordinator ---

    def reply(self, code: int = 0) -> None:
        if not self.in_flight(*BEATS):
            return
        if code:
            self.answer(code=code)
            return
        self.epoch += self.chance.randint(0, 2)
        names = self.chance.sample(ALL, self.chance.randint(0, 4)) if self.chance.random() < 0.6 else None
        if names is None and self.beat.member_epoch > 0:
            self.answer(self.epoch)
        else:
            self.answer(self.epoch, *names or (), empty=True)

    def left_one(self) -> None:
        for send in self.in_flight(Kind.LEAVE)[:1]:
            self.member.on_response(send.id, Answer(member_epoch=-1), self.now)
            self.settle()

    def lose_coordinator(self) -> None:
        self.member.coordinator_lost(NODE, self.now)
        self.settle()

    def find(self) -> None:
        if self.in_flight(Lookup.COORDINATOR):
            self.found()

    # --- steps ---

    def step(self) -> None:
        choose = self.chance.choice
        steps: list[tuple[int, Callable[[], object]]] = [
            (6, lambda: self.poll(choose([0, 10, 1_000, 5_000]))),
            (5, self.reply),
            (3, lambda: self.tick(choose([0, 100, 5_000, PATIENCE_MS]))),
            (1, lambda: self.reply(choose(REFUSALS))),
            (1, lambda: self.fail() if self.in_flight(*BEATS) else None),
            (1, lambda: self.metadata(2, every_topic=True, t=6, u=6)),
            (1, lambda: self.metadata(3, t=6)),
            (1, self.find),
            (1, self.lose_coordinator),
            (1, self.left_one),
            (1, lambda: self.leave() if self.chance.random() < 0.3 else None),
            (1, lambda: self.member.subscribe(choose([["t"], ["t", "u"]]))),
            (1, lambda: self.member.subscribe_expression("t.*")),
            (1, lambda: self.member.commit_refused(113, self.member.generation, "here")),
        ]
        weights, doings = zip(*steps, strict=True)
        with contextlib.suppress(KafkaError, ValueError):
            self.chance.choices(doings, weights)[0]()
        self.settle()
        self.timed()

    def calm_down(self) -> frozenset[TopicPartition]:
        """From now on all goes well: the member is assigned these partitions."""
        self.calm = True
        self.commit_outcome = CommitOutcome.DONE
        self.raises.clear()
        self.during.clear()
        self.member.subscribe(["t", "u"])
        names = self.chance.sample(ALL, 3)
        for _ in range(40):
            with contextlib.suppress(KafkaError, ValueError):
                self.poll(50)
            self.metadata(4, t=6, u=6)
            self.find()
            self.left_one()
            if self.in_flight(*BEATS):
                self.answer(self.epoch, *names)
            deadline = self.member.next_deadline()
            if deadline is not None:
                self.tick(min(max(0, deadline - self.now), 6_000))
        return tps(*names)


@pytest.mark.conformance("K-F-25", "K-F-30", "K-F-31", "K-F-32", "K-F-35", "K-F-40")
@pytest.mark.parametrize("first", range(0, 1_000, 100))
def test_whatever_happens_no_lie_is_acknowledged_and_the_member_finds_its_way_back(first: int) -> None:
    for seed in range(first, first + 100):
        history = History(seed)
        for _ in range(history.chance.randint(5, 120)):
            history.step()
        wanted = history.calm_down()
        assert history.state is MemberState.STABLE, seed
        assert history.member.owned == history.heard == wanted, seed
