"""Consumers, connections, a shard and its log in one deterministic world: a seed in, the same run out.

First faults: slow and lost networks, refused appends, unknown outcomes, failovers that lose what had not
committed, consumers that crash and restart. Then everything heals, and progress is required.

    PYTHONPATH=. python -m tests.support.coordination_simulator SEED     # run one seed, with a trace
"""

from __future__ import annotations

import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from actors.coordinator import (
    Append,
    CoordinatorConfig,
    HeartbeatRequest,
    JoinGroupRequest,
    Now,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    Response,
    ShardState,
    SyncGroupRequest,
)
from tests.support.coordination import START_WALL_MS, Driver, commit_request, commit_rows, subscription
from tests.support.coordination_invariants import assert_consistent

GROUP = "g"
PARTITIONS = 6
SESSION_MS = 6_000
REBALANCE_MS = 8_000
HEARTBEAT_MS = 1_500
FAULTS_END_MS = 40_000
HEALED_END_MS = 75_000
CONFIG = CoordinatorConfig(group_initial_rebalance_delay_ms=300)


class World:
    """Time, chance, and what is to happen when."""

    def __init__(self, seed: int, trace: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.trace = trace
        self.now_ms = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.faulty = True
        self.faults: Counter[str] = Counter()
        """What went wrong, by kind."""

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (self.now_ms + delay_ms, self._count, action))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
        self.now_ms = end_ms

    def chance(self, kind: str, probability: float) -> bool:
        """Whether this fault happens now: that often, but only while there are faults."""
        happens = self.faulty and self.random.random() < probability
        self.faults[kind] += happens
        return happens

    def delay(self, most_ms: int) -> int:
        return self.random.randint(1, most_ms)

    def say(self, text: str) -> None:
        if self.trace:
            sys.stdout.write(f"{self.now_ms:>7}  {text}\n")


class Server(Driver):
    """The shard with its log, and a broker that loses and delays things.

    The log takes appends in order after a while, and the high watermark follows after another.
    """

    def __init__(self, world: World) -> None:
        super().__init__(CONFIG, loaded=False)
        self.world = world
        self.connections: dict[int, Connection] = {}
        self.epoch = 0
        self.turns = 0
        self.log_free_ms = 0
        self.followers_free_ms = 0
        self.committed: dict[int, int] = {}
        """Partition -> the last offset a consumer was told is committed."""
        self._tick()
        self.begin_loading()

    def _tick(self) -> None:
        """The driver's timer, checked more often than anything is due."""
        self.take_turn()
        self.world.after(50, self._tick)

    def _set_clock(self) -> None:
        self.now = Now(self.world.now_ms, START_WALL_MS + self.world.now_ms)

    # -- requests

    def receive(self, token: tuple[int, int], request: Request) -> None:
        if token[0] in self.connections:
            self._set_clock()
            self.shard.handle(token, request, self.now)
            self.take_turn()

    def take_turn(self) -> None:
        self._set_clock()
        self.shard.on_time(self.now)
        while append := self.shard.take_records():
            self._to_log(append)
        self._hand_out()
        self.turns += 1
        if self.turns % 100 == 0:
            assert_consistent(self)

    def _hand_out(self) -> None:
        for token, response in self.shard.take_replies():
            connection_id, slot = token  # type: ignore[misc]
            connection = self.connections.get(connection_id)
            assert connection is not None, "a client that had gone was answered"
            connection.fill(slot, response)

    def close(self, connection_id: int) -> None:
        if self.connections.pop(connection_id, None):
            self.shard.drop(lambda token: token[0] == connection_id)  # type: ignore[index]

    # -- the log

    def _to_log(self, append: Append) -> None:
        world, epoch = self.world, self.epoch
        slow = 3_000 if world.chance("a slow append", 0.02) else 10
        self.log_free_ms = max(self.log_free_ms, world.now_ms) + world.delay(slow)
        world.after(self.log_free_ms - world.now_ms, lambda: self._outcome(epoch, append))

    def _outcome(self, epoch: int, append: Append) -> None:
        world = self.world
        if epoch != self.epoch:
            return
        self._set_clock()
        if world.chance("an append refused", 0.08):
            world.say(f"append {append.batch_id} refused")
            self.shard.append_refused(append.batch_id, world.random.choice([19, 10, 56]), self.now)
        elif world.chance("an outcome unknown", 0.01):
            world.say(f"append {append.batch_id}: outcome unknown")
            if world.random.random() < 0.5:
                self.write(append)
            self._fail_over(forget=True)
        else:
            base = len(self.log)
            self.write(append)
            self.shard.appended(append.batch_id, base, len(self.log), self.now)
            end, slow = len(self.log), 7_000 if world.chance("slow replication", 0.02) else 10
            # In order, as everything on a connection to a follower: what comes after a slow one waits, too.
            self.followers_free_ms = max(self.followers_free_ms, world.now_ms) + world.delay(slow)
            world.after(self.followers_free_ms - world.now_ms, lambda: self._replicated(epoch, end))
        self.take_turn()

    def _replicated(self, epoch: int, end: int) -> None:
        if epoch == self.epoch and end > self.high_watermark:
            self._set_clock()
            self.high_watermark = end
            self.shard.high_watermark(end, self.now)
            self.take_turn()

    # -- failover

    def crash(self) -> None:
        self.world.say("failover")
        self._fail_over(forget=False)

    def _fail_over(self, *, forget: bool) -> None:
        """The shard's state is gone, and whatever had not committed may be, too."""
        self._set_clock()
        (self.shard.forget if forget else self.shard.unload)()
        self._hand_out()
        ends = [end for end in self.batch_ends if end >= self.high_watermark]
        self.truncate(self.world.random.choice(ends))
        self.epoch += 1
        self.log_free_ms = self.world.now_ms
        if not forget:
            self.shard = self._new_shard()
        self.world.after(self.world.delay(400), self.begin_loading)

    def begin_loading(self) -> None:
        epoch = self.epoch
        self._set_clock()
        self.shard.start_loading(epoch, self.now)
        self.world.after(self.world.delay(300), lambda: self._loaded(epoch))

    def _loaded(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        self._set_clock()
        for start in range(0, len(self.log), 50):
            self.shard.load(self.log[start : start + 50])
        end = len(self.log)
        self.shard.finish_loading(self.now, end, self.high_watermark)
        self.world.after(self.world.delay(200), lambda: self._replicated(epoch, end))
        self.take_turn()


@dataclass(slots=True)
class Connection:
    """Requests take slots, and a finished slot waits for those before it."""

    world: World
    server: Server
    connection_id: int
    deliver: Callable[[Any], None]
    sent: int = 0
    slots: deque[int] = field(default_factory=deque)
    done: dict[int, Response] = field(default_factory=dict)
    is_open: bool = True
    last_request_ms: int = 0
    last_answer_ms: int = 0

    def send(self, request: Request) -> None:
        self.sent += 1
        slot = self.sent
        self.slots.append(slot)
        world = self.world
        # A connection keeps its order, however long each leg takes.
        slow = 800 if world.chance("a slow network", 0.02) else 5
        self.last_request_ms = max(self.last_request_ms, world.now_ms + world.delay(slow))
        token = (self.connection_id, slot)
        world.after(self.last_request_ms - world.now_ms, lambda: self.server.receive(token, request))

    def fill(self, slot: int, response: Response) -> None:
        assert slot in self.slots, "a slot was filled twice"
        assert slot not in self.done, "a slot was filled twice"
        self.done[slot] = response
        while self.slots and self.slots[0] in self.done:
            answer = self.done.pop(self.slots.popleft())
            world = self.world
            self.last_answer_ms = max(self.last_answer_ms, world.now_ms + world.delay(5))
            world.after(self.last_answer_ms - world.now_ms, lambda answer=answer: self._deliver(answer))

    def _deliver(self, answer: Response) -> None:
        if self.is_open:
            self.deliver(answer)

    def close(self) -> None:
        self.is_open = False
        self.server.close(self.connection_id)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way, and in which life it was made."""

    request: Request
    then: Callable[[Any], None]
    life: int


class Consumer:
    """A member that behaves: joins, syncs, reads where the group left off, commits what it has read."""

    def __init__(self, world: World, server: Server, name: str, instance: str | None) -> None:
        self.world = world
        self.server = server
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.life = 0
        """Whatever was planned in an earlier life does not happen."""
        self.positions: dict[int, int] | None = None
        self.in_flight: deque[Asked] = deque()
        self.connection: Connection | None = None
        self.progress = 0

    # -- life

    def start(self) -> None:
        self.world.say(f"{self.name} starts")
        self.member_id = ""
        self._begin()

    def crash(self) -> None:
        self.world.say(f"{self.name} crashes")
        self._end()
        self.life += 1
        self.world.after(self.world.delay(9_000), self.start)

    def _begin(self) -> None:
        self.life += 1
        self._end()
        connection_id = len(self.server.connections) + 1_000 * self.life + hash_of(self.name)
        while connection_id in self.server.connections:
            connection_id += 1
        self.connection = Connection(self.world, self.server, connection_id, self._answered)
        self.server.connections[connection_id] = self.connection
        self._join()

    def _end(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.in_flight.clear()
        self.positions = None

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self.life
        self.world.after(delay_ms, lambda: action() if life == self.life else None)

    def _ask(self, request: Request, then: Callable[[Any], None], timeout_ms: int = 6_000) -> None:
        assert self.connection is not None
        asked = Asked(request, then, self.life)
        self.in_flight.append(asked)
        self.connection.send(request)
        self._later(timeout_ms, lambda: self._timed_out(asked))

    def _timed_out(self, asked: Asked) -> None:
        if any(asked is waiting for waiting in self.in_flight):
            self.world.say(f"{self.name} gives up on {type(asked.request).__name__} and connects anew")
            self._begin()

    def _answered(self, answer: Any) -> None:
        asked = self.in_flight.popleft()
        assert type(answer).__name__.removesuffix("Response") == type(asked.request).__name__.removesuffix("Request")
        if asked.life == self.life:
            asked.then(answer)

    # -- membership

    def _join(self) -> None:
        self.positions = None
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(("range", subscription("t")), ("sticky", subscription("t"))),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            group_instance_id=self.instance,
            client_id=self.name,
        )
        self._ask(request, self._joined, REBALANCE_MS + 5_000)

    def _joined(self, answer: Any) -> None:
        match answer.error_code:
            case 0:
                self.member_id, self.generation = answer.member_id, answer.generation_id
                leads = answer.leader == self.member_id and not answer.skip_assignment
                self._sync(divide([m.member_id for m in answer.members]) if leads else {})
            case 79:
                self.member_id = answer.member_id
                self._join()
            case code:
                self._recover(code)

    def _sync(self, shares: dict[str, bytes]) -> None:
        request = SyncGroupRequest(
            GROUP, self.generation, self.member_id, self.instance, "consumer", None, tuple(shares.items()), 4
        )
        self._ask(request, self._synced, REBALANCE_MS + 5_000)

    def _synced(self, answer: Any) -> None:
        if answer.error_code:
            self._recover(answer.error_code)
            return
        partitions = tuple(("t", partition) for partition in answer.assignment)
        self.world.say(f"{self.name} has {list(answer.assignment)} in generation {self.generation}")
        # Earlier commits must have been decided, or the group would read from before them.
        self._ask(OffsetFetchRequest(GROUP, partitions, require_stable=True), self._fetched)
        self._later(HEARTBEAT_MS, self._heartbeat)

    def _fetched(self, answer: Any) -> None:
        if answer.error_code:
            self._recover(answer.error_code)
            return
        self.positions = {row.partition: max(row.offset, 0) for row in answer.offsets}
        for partition, position in self.positions.items():
            assert position >= self.server.committed.get(partition, 0), "an acknowledged commit is gone"
        self._later(self.world.delay(1_500), self._commit)

    def _recover(self, code: int) -> None:
        match code:
            case 25:
                self.member_id = ""
            case 82:  # two of the same instance: only a restart of ours can have done it
                self.member_id = ""
            case 14 | 15 | 16 | 22 | 27 | 81 | -1:
                pass
            case _:
                raise AssertionError(f"{self.name} was answered {code}")
        self.positions = None
        self.life += 1
        self._later(self.world.delay(300), self._join)

    def _heartbeat(self) -> None:
        self._ask(HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance), self._beaten)

    def _beaten(self, answer: Any) -> None:
        match answer.error_code:
            case 0 | 14 | 15 | 16:
                self._later(HEARTBEAT_MS, self._heartbeat)
            case code:
                self._recover(code)

    # -- work

    def _commit(self) -> None:
        if self.positions is None:
            return
        for partition in self.positions:
            self.positions[partition] += self.world.delay(5)
        offsets = [("t", partition, position, -1, "") for partition, position in self.positions.items()]
        request = commit_request(GROUP, self.generation, self.member_id, self.instance, offsets)
        self._ask(request, lambda answer: self._committed(request, answer))

    def _committed(self, request: OffsetCommitRequest, answer: Any) -> None:
        codes = set(answer.error_codes)
        if codes <= {0}:
            for _, partition, position, *_ in commit_rows(request):
                newest = self.server.committed.get(partition, 0)
                self.server.committed[partition] = max(newest, position)
            self.progress += 1
            self._later(self.world.delay(1_500), self._commit)
        else:
            self._recover(max(codes, key=abs))


def hash_of(name: str) -> int:
    """A number for a name that is the same in every process."""
    return sum(ord(char) * 1_000_000 * (at + 1) for at, char in enumerate(name))


def divide(member_ids: list[str]) -> dict[str, bytes]:
    """Each partition to one member; an assignment is a byte for each."""
    return {
        member_id: bytes(p for p in range(PARTITIONS) if p % len(member_ids) == n)
        for n, member_id in enumerate(sorted(member_ids))
    }


def _faults(world: World, server: Server, consumers: list[Consumer]) -> None:
    if not world.faulty:
        return
    if world.chance("a failover", 0.15):
        server.crash()
    elif world.chance("a consumer's crash", 0.3):
        world.random.choice(consumers).crash()
    world.after(world.delay(4_000), lambda: _faults(world, server, consumers))


def run(seed: int, trace: bool = False) -> Server:
    """One run. An AssertionError names its seed."""
    world = World(seed, trace)
    server = Server(world)
    instances = {"c": "ic", "d": "id"}
    consumers = [Consumer(world, server, name, instances.get(name)) for name in "abcd"]
    try:
        for consumer in consumers:
            world.after(world.delay(2_000), consumer.start)
        world.after(2_000, lambda: _faults(world, server, consumers))
        world.run_until(FAULTS_END_MS)
        world.faulty = False
        world.say("healed")
        world.run_until(HEALED_END_MS - 8_000)
        before = [consumer.progress for consumer in consumers]
        world.run_until(HEALED_END_MS)
        _assert_healed(server, consumers, before)
    except Exception as broken:
        line = f"PYTHONPATH=. python -m tests.support.coordination_simulator {seed}"
        raise AssertionError(f"{type(broken).__name__}: {broken} -- {line}") from broken
    return server


def _assert_healed(server: Server, consumers: list[Consumer], before: list[int]) -> None:
    assert server.shard.state is ShardState.ACTIVE
    assert_consistent(server)
    assert server.state(GROUP) == "Stable", f"the group is {server.state(GROUP)}"
    group = server.group(GROUP)
    assert set(group.members) == {consumer.member_id for consumer in consumers}
    assert {consumer.generation for consumer in consumers} == {group.generation_id}
    owned = sorted(p for consumer in consumers for p in consumer.positions or ())
    assert owned == list(range(PARTITIONS)), f"partitions {owned} are owned"
    assert all(consumer.progress > start for consumer, start in zip(consumers, before, strict=True))
    assert not any(connection.done for connection in server.connections.values())


if __name__ == "__main__":
    run(int(sys.argv[1]), trace=True)
