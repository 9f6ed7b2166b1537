"""A guest beside each partition's log, a counter, and the client that asks it. Its invariants:

counter-survives    no increment that was acknowledged is lost, and none is there that nobody asked for; the counts in
                    answers and fetches are those of the log, and do not go back
led-together        a state partition has the leader of its data partition, or none
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.broker.beside.seat import Seat, SeatState
from actors.controller.metadata.publisher import Publisher
from actors.log.partition_log import PartitionLog
from placement.metadata import NO_LEADER
from placement.records import Record
from tests.sim.clients import PARTITIONS, TOPIC
from tests.sim.engine import MS, SECOND
from tests.sim.scenario import LEASE_MS
from tests.sim.sim_broker import SimBroker
from tests.support.counter_guest import COUNTER, Counter, Fetched, Increment, Incremented

if TYPE_CHECKING:
    from tests.sim.run import World

_STALE_US = LEASE_MS * MS + 100 * MS
"""For so long a leader that has been replaced may show its last count."""


@dataclass(slots=True)
class Counts:
    """All questions and answers about one partition."""

    attempted: set[str] = field(default_factory=set)
    acknowledged: dict[int, str] = field(default_factory=dict)
    shown: list[tuple[int, int]] = field(default_factory=list)
    """The times at which an answer or a fetch showed a count, each with the highest count shown until then."""

    def show(self, now_us: int, count: int) -> None:
        highest = max(count, self.shown[-1][1]) if self.shown else count
        self.shown.append((now_us, highest))

    def shown_before(self, us: int) -> int:
        """The highest count that was shown before a time."""
        return next((count for at, count in reversed(self.shown) if at < us), 0)


class Counting:
    """Asks the counters of all brokers: mostly the leader's, and now and then one that is none, or is none any more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sim = world.sim
        self.cluster = world.cluster
        self.counts = [Counts() for _ in range(PARTITIONS)]
        self.reads = 0
        self.stopped = False
        self._number = 0

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The methods of the product that are exchanged for the length of the run."""
        return [(Publisher, "commit", self._watch_elections(Publisher.commit))]

    # --- asking ---

    def start(self) -> None:
        self._ask()
        self._look()

    def stop(self) -> None:
        """Ask nothing more, so that all comes to rest."""
        self.stopped = True

    def _ask(self) -> None:
        if self.stopped:
            return
        chance = self.sim.random
        self.sim.after(chance.randint(10, 150) * MS, self._ask)
        index = chance.randrange(PARTITIONS)
        broker = self._asked(index)
        if broker is None or broker.process is None or broker.server is None:
            return
        delay_us, act = self.sim.network.latency(False), self._read if chance.random() < 0.4 else self._increment
        for _ in range(chance.choice((1, 1, 3))):
            self.sim.at(self.sim.now + delay_us, broker.process, act, broker.server, index)

    def _asked(self, index: int) -> SimBroker | None:
        partition = self.cluster.partition(TOPIC, index)
        if partition is None or partition.leader < 0 or self.sim.random.random() < 0.15:
            return self.sim.random.choice(self.cluster.brokers)
        return self.cluster.brokers[partition.leader]

    def _increment(self, server: Any, index: int) -> None:
        self._number += 1
        name = str(self._number)
        self.counts[index].attempted.add(name)
        server.guests.ask(COUNTER.name, TOPIC, index, Increment(name), partial(self._incremented, index, name))

    def _incremented(self, index: int, name: str, code: int, count: int | None) -> None:
        if code or count is None:
            return
        counts = self.counts[index]
        other = counts.acknowledged.setdefault(count, name)
        if other != name:
            self._fail(index, f"{count} was answered to increments {other} and {name}")
        counts.show(self.sim.now, count)

    def _read(self, server: Any, index: int) -> None:
        server.guests.ask(COUNTER.name, TOPIC, index, Fetched(), partial(self._was_read, index))

    def _was_read(self, index: int, code: int, count: int | None) -> None:
        if code or count is None:
            return
        self.reads += 1
        counts = self.counts[index]
        if count > len(counts.attempted):
            self._fail(index, f"{count} is shown, {len(counts.attempted)} increments were asked for")
        before = counts.shown_before(self.sim.now - _STALE_US)
        if count < before:
            self._fail(index, f"{count} is shown, {before} was shown {_STALE_US // MS} ms ago and more")
        counts.show(self.sim.now, count)

    def _fail(self, index: int, text: str) -> None:
        self.sim.fail("counter-survives", f"beside {TOPIC}-{index}: {text}")

    # --- watching ---

    def _watch_elections(self, product: Any) -> Any:
        def commit(publisher: Publisher, records: Sequence[Record], **options: Any) -> Any:
            made = product(publisher, records, **options)
            metadata = publisher.decided
            for pair in metadata.pairs:
                data = metadata.partition(metadata.names[pair.topic_id], pair.index)
                state = metadata.partition(pair.state_topic, pair.state_index)
                assert data is not None
                assert state is not None
                if state.leader not in (NO_LEADER, data.leader):
                    self.sim.fail("led-together", f"{pair} is {data} and {state}")
            return made

        return commit

    def _look(self) -> None:
        for broker in self.cluster.brokers:
            for index, seat in self._seats(broker):
                self._judge_seat(broker, index, seat)
        self.sim.after(SECOND, self._look)

    def _seats(self, broker: SimBroker) -> Iterator[tuple[int, Seat]]:
        if broker.server is not None:
            for (_, _, index), seat in broker.server.guests.seats():
                yield index, seat

    def _judge_seat(self, broker: SimBroker, index: int, seat: Seat) -> None:
        """While it may lead, a guest that serves holds the state of its log."""
        assert broker.server is not None
        context, state = broker.server.context, seat.state_log
        info, log = context.metadata.partition(state.topic, state.index), broker.log(state.topic, state.index)
        if seat.state is not SeatState.ACTIVE or info is None or log is None or info.leader_epoch != state.leader_epoch:
            return
        leader = broker.server.replicas.leading(state.topic, state.index)
        if len(info.replicas) == 1 or (leader is not None and leader.leader_epoch == state.leader_epoch):
            self._judge_counter(seat, log, f"broker {broker.id}'s counter beside {TOPIC}-{index}")

    def _judge_counter(self, seat: Seat, log: PartitionLog, name: str) -> None:
        counter = seat.guest
        assert isinstance(counter, Counter)
        replayed = self._increments(log, log.high_watermark)
        if list(counter.ids.items()) != [(each.id, each.count) for each in replayed]:
            self.sim.fail("counter-survives", f"{name} holds {counter.ids}, its log says {replayed}")

    def _increments(self, log: PartitionLog, end: int) -> list[Incremented]:
        decoded = (COUNTER.codec.decode(*record) for record in self.world.witness.logs.keys_and_values(log, end))
        return [record for record in decoded if isinstance(record, Incremented)]

    # --- in the end ---

    def at_rest(self, others: Callable[[], bool]) -> Callable[[], bool]:
        """True if `others` are at rest, and each counter has counted since the last fault."""
        before = [len(counts.acknowledged) for counts in self.counts]

        def look() -> bool:
            if not others():
                return False
            idle = [index for index, counts in enumerate(self.counts) if len(counts.acknowledged) == before[index]]
            if idle:
                self.world.witness.why = f"no increment beside {TOPIC}-{idle[0]} is acknowledged"
            return not idle

        return look

    def judge(self) -> None:
        """At rest: the log of each state partition has all that was acknowledged, once, in its order, everywhere."""
        for pair in self.cluster.truth.pairs:
            state = self.cluster.partition(pair.state_topic, pair.state_index)
            assert state is not None
            for replica in state.replicas:
                log = self.cluster.brokers[replica].log(pair.state_topic, pair.state_index)
                self._judge_log(pair.index, self._increments(log, log.log_end_offset) if log is not None else [])

    def _judge_log(self, index: int, increments: list[Incremented]) -> None:
        counts = self.counts[index]
        if [each.count for each in increments] != list(range(1, len(increments) + 1)):
            self._fail(index, f"the log counts {[each.count for each in increments]}")
        by_count = {each.count: each.id for each in increments}
        if lost := {count: name for count, name in counts.acknowledged.items() if by_count.get(count) != name}:
            self._fail(index, f"the log has {by_count}, not {lost}, which was acknowledged")
        if invented := set(by_count.values()) - counts.attempted:
            self._fail(index, f"nobody asked for {invented}")
        if len(set(by_count.values())) < len(by_count):
            self._fail(index, f"an increment is counted twice: {by_count}")

    def figures(self) -> dict[str, int]:
        return {"increments": sum(len(each.acknowledged) for each in self.counts), "counts_read": self.reads}
