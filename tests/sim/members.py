"""Members of groups, with the product's membership of either protocol, and one that only reads committed offsets.

Only the user's thread, which in the product may block, is a coroutine here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from actors.client.errors import (
    CommitFailedError,
    FatalError,
    FencedInstanceIdError,
    HeartbeatFailedError,
    KafkaError,
    RebalanceInProgressError,
)
from actors.client.group.assignors import BUILT_IN
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.membership import Membership as ClassicMembership
from actors.client.group.classic.standing import MemberState
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.membership import Membership as ConsumerMembership
from actors.client.group.consumer_protocol.standing import MemberState as ConsumerState
from actors.client.group.driver import Driver
from actors.client.group.effects import Action, Apply, CommitFirst, CommitOutcome, Event, Fail, RunListener
from actors.client.net.changes import Changes
from actors.client.records import OffsetAndMetadata, TopicPartition
from tests.sim.claims import Claim
from tests.sim.clients import PARTITIONS, TOPIC, Client
from tests.sim.cluster import Cluster
from tests.sim.engine import MS, Process
from tests.sim.history import History
from tests.sim.scenario import Group, Speaks

SESSION_MS = 3_000
REBALANCE_MS = 3_000
_PATIENCE_MS = (1_500, 3_000, 6_000)
"""The times that members of the consumer protocol may take to give something up, and to poll."""
_REFUSED_FOR_GOOD = (CommitFailedError, RebalanceInProgressError, FencedInstanceIdError)


class Ending(Enum):
    """The next step of a member's process."""

    GOES_ON = 0
    BEGINS_ANEW = 1


class Member(Client):
    """A consumer in a group: reads where the group stands, and commits ever newer positions.

    `plan` is its group; `number` is its place there. Without a place it is no member.
    """

    def __init__(self, cluster: Cluster, history: History, name: str, plan: Group, number: int | None = None) -> None:
        super().__init__(cluster, history, name)
        self.plan = plan
        self.group = plan.name
        self.instance = None if number is None else plan.instances[number]
        self.subscribes = number is not None
        self.may_speak = Speaks.CLASSIC if number is None else plan.speak[number]
        self.speaks = self.may_speak
        """The protocol of this life."""
        if plan.is_mixed:
            self.metadata_max_age_ms = 4_000  # topics change meanwhile
        self.member: ClassicMembership | ConsumerMembership
        self.driver: Driver
        self.positions: dict[TopicPartition, int] = {}
        self.commits = 0
        self.past: list[tuple[int, str]] = []
        """Generations and member ids that are over."""
        self.slow_listener: Process | None = None
        """The process in which a listener takes its time."""

    # -- a life

    def prepare(self) -> None:
        if self.may_speak is Speaks.EITHER:
            other = {Speaks.CLASSIC: Speaks.CONSUMER, Speaks.CONSUMER: Speaks.CLASSIC}
            self.speaks = other.get(self.speaks) or self.sim.random.choice(tuple(other))
        self.positions = {}
        self.member = self._classic() if self.speaks is Speaks.CLASSIC else self._of_the_consumer_protocol()
        self.driver = Driver(self.member, self.network, Changes(self.network.now_ms), lambda tp: b"")
        if self.subscribes:
            self._subscribe()
        self.driver.pump()

    def on_metadata(self) -> None:
        self.driver.on_metadata()

    def _classic(self) -> ClassicMembership:
        config = MembershipConfig(
            group_id=self.group,
            assignors=(BUILT_IN[self.plan.assignor](),),
            group_instance_id=self.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=REBALANCE_MS,
            request_timeout_ms=2_500,
            retry_backoff_max_ms=400,
        )
        return ClassicMembership(config, self.network.jitter)

    def _of_the_consumer_protocol(self) -> ConsumerMembership:
        config = MemberConfig(
            group_id=self.group,
            group_instance_id=self.instance,
            max_poll_interval_ms=self.sim.random.choice(_PATIENCE_MS),
            request_timeout_ms=2_500,
            retry_backoff_max_ms=400,
        )
        return ConsumerMembership(config, f"{self.name}.{self.lives}", self.network.jitter)

    def _subscribe(self) -> None:
        wish = self.plan.wish
        if not wish.expression:
            self.member.subscribe(wish.topics)
        elif isinstance(self.member, ConsumerMembership):
            self.member.subscribe_expression(wish.expression)
        else:
            self.member.subscribe_pattern(lambda topic: topic in wish.topics)

    def wanted(self) -> frozenset[str] | None:
        return None if self.member.wants_all_topics else self.member.watched_topics | {TOPIC}

    async def live(self) -> None:
        while True:
            self.member.poll(self.network.now_ms())
            if await self._take_part() is Ending.BEGINS_ANEW:
                await self.pause(100, 500)
                self.sim.after(300 * MS, self.start)  # as a user would after a fatal error of the consumer
                assert self.process is not None
                self.sim.after(0, self.process.kill)
                return
            if self.member.owned and self._is_settled:
                await self._work()
            await self.pause(20, 250)

    async def leave(self, back_us: int) -> None:
        """Close as a user does, and come back after a while."""
        self.member.unsubscribe(self.network.now_ms(), "closed")
        self._uses(frozenset())
        self.driver.pump()
        await self.pause(10, 500)
        assert self.process is not None
        self.sim.after(0, self.process.kill)
        self.sim.after(back_us, self.start)

    # -- taking part

    @property
    def _is_settled(self) -> bool:
        """True if it may work at its partitions."""
        if isinstance(self.member, ConsumerMembership):
            return self.member.standing.holding
        return self.member.state is MemberState.STABLE

    async def _take_part(self) -> Ending:
        """Do the product's poll; it ends when the user is told to give up."""
        while True:
            before = self.member.generation
            action = self.member.next_action(self.network.now_ms())
            self.driver.pump()
            if action is None:
                return Ending.GOES_ON
            if isinstance(action, Fail):
                self.sim.say(f"{self.name}: {action.error!r}")
                if isinstance(action.error, HeartbeatFailedError):
                    raise action.error
                if isinstance(action.error, FatalError) or self.member.state is ConsumerState.FATAL:
                    return Ending.BEGINS_ANEW
                continue
            self.member.action_done(action, self.network.now_ms(), None, await self._carry_out(action))
            if self.member.generation != before:
                self.past.append((before.id, before.member_id))

    async def _carry_out(self, action: Action) -> CommitOutcome:
        match action:
            case CommitFirst():
                await self._commit(sorted(self.positions))
            case Apply(partitions):
                self._apply(partitions)
            case RunListener(Event.REVOKED) if self.plan.is_mixed and not self.sim.calm:
                if self.sim.random.random() < 0.15:
                    await self._listen_slowly()
        return CommitOutcome.DONE

    async def _listen_slowly(self) -> None:
        """A listener takes long, perhaps longer than the member may take to give something up."""
        process = self.slow_listener = self.process
        await self.pause(500, 5_000)
        if self.slow_listener is process:
            self.slow_listener = None

    @property
    def in_listener(self) -> bool:
        """True while a listener runs. If it runs for too long, its member has yet to leave the group."""
        return self.slow_listener is not None and self.slow_listener.alive

    def _apply(self, partitions: frozenset[TopicPartition]) -> None:
        generation = self.member.generation
        self.sim.say(f"{self.name} has {[tp.partition for tp in sorted(partitions)]} in generation {generation.id}")
        if partitions and generation.id >= 0:
            if self.plan.is_mixed:
                self.history.assignments += 1
            else:
                self.history.assigned(self.group, generation.id, self.instance or generation.member_id, partitions)
            if (generation.id, generation.member_id) not in self.past:
                self.past.append((generation.id, generation.member_id))
        self._uses(partitions)
        self.positions = {tp: at for tp, at in self.positions.items() if tp in partitions}

    def _uses(self, partitions: frozenset[TopicPartition]) -> None:
        """Topics that come and go are left out: by name, nobody knows which of them is meant."""
        assert self.process is not None
        lasting = frozenset(tp for tp in partitions if tp.topic in self.plan.wish.lasting)
        place = self.member.generation
        claim = Claim(self.process, place.member_id, place.id, self.instance is not None, lasting)
        self.history.claims.uses(self.group, self.name, claim)

    # -- working

    async def _work(self) -> None:
        mine = [tp for tp in sorted(self.member.owned) if tp.topic == TOPIC]
        missing = [tp for tp in mine if tp not in self.positions]
        if missing:
            generation = self.member.generation
            found = await self.read(missing, 2_500)
            if self.member.generation == generation and found:
                self.positions.update((tp, at) for tp, at in found.items() if tp in self.member.owned)
        elif self.sim.random.random() < 0.5:
            await self._commit(sorted(self.positions))

    async def read(self, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        """The group's offsets, checked against acknowledged commits; empty if they cannot be had."""
        begun_us = self.sim.now
        try:
            found = await self.driver.committed(partitions, timeout_ms)
        except KafkaError as error:
            self.sim.say(f"{self.name} cannot read offsets: {error!r}")
            return {}
        for tp, offset in found.items():
            self.history.read(self.group, tp, offset.offset if offset is not None else None, begun_us)
        return {tp: offset.offset if offset is not None else 0 for tp, offset in found.items()}

    async def _commit(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        values = {tp: self.history.next_position() for tp in partitions}
        offsets = {tp: OffsetAndMetadata(value, "", -1) for tp, value in values.items()}
        try:
            commit = self.driver.make_commit(offsets)
        except KafkaError:
            return
        attempts = self.history.begin_commit(self.group, values, self.name)
        try:
            await self.driver.commit(commit, offsets, 2_500, retry=False)
        except _REFUSED_FOR_GOOD as error:
            self.history.end_commit(attempts, acked=False, refused=repr(error))
        except KafkaError as error:
            self.sim.say(f"{self.name} cannot commit: {error!r}")
        else:
            self.commits += 1
            self.history.end_commit(attempts, acked=True)


class Observer(Member):
    """No member: asks for a group's offsets over and over, as tools that show its lag do."""

    async def live(self) -> None:
        while True:
            await self.pause(50, 400)
            await self.read([TopicPartition(TOPIC, index) for index in range(PARTITIONS)], 1_000)


class Lodger(Member):
    """The only member of its group, which it joins for a while, over and over: in between the group's shard may sleep.

    It goes without a word once in a while.
    """

    stays_away = False

    async def live(self) -> None:
        until_us = self.sim.now + self.sim.random.randint(500, 3_000) * MS
        while self.sim.now < until_us and not self.stays_away:
            self.member.poll(self.network.now_ms())
            if await self._take_part() is Ending.BEGINS_ANEW:
                break
            if self.member.owned and self._is_settled:
                await self._work()
            await self.pause(20, 250)
        back_us = self.sim.random.randint(500, 4_000) * MS
        if self.sim.random.random() < 0.8:
            await self.leave(back_us)
        else:
            assert self.process is not None
            self.sim.after(0, self.process.kill)
            self.sim.after(back_us, self.start)

    def start(self) -> None:
        if not self.stays_away:
            super().start()
