"""Nothing leaves the controller before it has committed, and of what is dropped nobody has heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from actors.controller.metadata.commits import Commit, NotControllerError
from actors.controller.pool_seals import POOLS_KEY, PoolSeals
from actors.links.control import Answer, Confirmed, Failed, Heartbeat, Image, Join, Joined, Welcome
from actors.links.pool_seals import Seal
from actors.links.status import Load
from actors.runtime.environment import Clock, Environment
from actors.runtime.private import write_private
from placement.records import BrokerRecord, ControllerEpochRecord, PartitionRecord, ProducerIdsRecord, Record
from placement.sealed_pools import SealedVersion
from tests.support.controller_world import controller, create, topic
from tests.support.held_log import HeldLog
from tests.support.runtime_helpers import FakeBroker, until


async def turns() -> None:
    """Wait until both ends have read and handled all that was sent so far: a question goes there and back."""
    for _ in range(20):
        await asyncio.sleep(0)


async def answered_by(broker: FakeBroker) -> None:
    """Wait until the controller has handled all that this broker has sent."""
    before = len(broker.of(Joined))
    broker.send(Join(broker.broker_id))
    await broker.hear(Joined, before + 1)


def topics_told(broker: FakeBroker) -> list[list[str]]:
    return [list(image.metadata.topics) for image in broker.of(Image)]


async def test_an_image_and_an_answer_wait_for_the_commit(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.ask("create_topics", 7, topics=[topic("t")])
        await until(lambda: "t" in log.decided.topics)
        await answered_by(broker)
        assert "t" not in c.metadata.topics
        assert not any(topics_told(broker))
        assert broker.of(Answer) == []
        assert "t" not in broker.of(Joined)[-1].metadata.topics
        log.commit()
        await broker.hear(Answer)
        assert topics_told(broker)[-1] == ["t"]


async def test_a_refusal_waits_for_what_it_was_made_of(tmp_path: Path) -> None:
    """That a topic exists already may be told when it exists."""
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.ask("create_topics", 7, topics=[topic("t")])
        broker.ask("create_topics", 8, topics=[topic("t")])
        await answered_by(broker)
        assert broker.of(Answer) == []
        log.commit()
        await broker.hear(Answer, 2)
        assert broker.answer(8)["result"][0]["error_code"] == 36  # type: ignore[index]


async def test_an_operation_that_is_refused_as_a_whole_is_answered_when_what_it_was_made_of_has_committed(
    tmp_path: Path,
) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.ask("create_topics", 7, topics=[topic("t")])
        broker.ask("replica_torn", 8, broker_id=0, broker_epoch=9, partitions=[])
        await answered_by(broker)
        assert (broker.of(Answer), broker.of(Failed)) == ([], [])
        log.commit()
        assert "broker 0 is not registered at epoch 9" in (await broker.hear(Failed)).error


async def test_an_error_that_is_made_of_what_has_been_decided_is_raised_when_that_has_committed(
    tmp_path: Path,
) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.ask("create_topics", 7, topics=[topic("t")])
        await until(lambda: "t" in log.decided.topics)
        asking = asyncio.create_task(c.server.committed(lambda: log.decided.topics["no such topic"]))
        await turns()
        assert not asking.done()
        log.commit()
        with pytest.raises(KeyError):
            await asking


async def test_a_block_of_producer_ids_is_given_out_when_it_has_committed(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.ask("allocate_producer_ids", 7)
        broker.ask("allocate_producer_ids", 8)
        await answered_by(broker)
        assert broker.of(Answer) == []
        log.commit()
        await broker.hear(Answer, 2)
        assert [broker.answer(number)["result"]["first"] for number in (7, 8)] == [0, 1000]  # type: ignore[index]


async def test_a_broker_is_welcomed_and_sent_images_when_its_registration_has_committed(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        one = await FakeBroker(0).register(c.port)
        log.held = True
        two = await FakeBroker(1).connect(c.port)
        two.send(two.hello())
        await until(lambda: 1 in log.decided.brokers)
        await answered_by(two)
        c.server.publisher.tell()
        await answered_by(two)
        assert (two.of(Welcome), two.of(Image), 1 in c.launcher.ports) == ([], [], False)
        assert not any(1 in image.metadata.brokers for image in one.of(Image))
        log.commit()
        await two.hear(Image)
        assert [type(message) for message in two.heard if not isinstance(message, Joined)] == [Welcome, Image]
        assert c.launcher.ports[1] == 9092
        await until(lambda: 1 in one.of(Image)[-1].metadata.brokers)


async def test_a_heartbeat_is_confirmed_when_the_registration_has_committed(tmp_path: Path) -> None:
    """A broker whose heartbeat is confirmed has a lease."""
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        log.held = True
        broker = await FakeBroker(0).connect(c.port)
        broker.send(broker.hello())
        broker.send(Heartbeat(1.0, Load()))
        await answered_by(broker)
        assert broker.of(Confirmed) == []
        assert not c.server.brokers[0].answered
        log.commit()
        await broker.hear(Welcome)
        broker.send(Heartbeat(2.0, Load()))
        assert await broker.hear(Confirmed) == Confirmed(2.0)


async def test_a_broker_that_has_gone_before_its_registration_committed_is_not_welcomed(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        log.held = True
        gone = await FakeBroker(1).connect(c.port)
        gone.send(gone.hello())
        await until(lambda: 1 in log.decided.brokers)
        again = await FakeBroker(1).connect(c.port)
        again.send(again.hello())
        await gone.lost.wait()
        await answered_by(again)
        log.commit()
        await again.hear(Welcome)
        assert gone.of(Welcome) == []


async def test_a_broker_joins_when_the_controllers_own_epoch_has_committed(tmp_path: Path) -> None:
    """Before that a new cluster has no id."""
    log = HeldLog()
    log.held = True
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).connect(c.port)
        broker.send(Join(0))
        await until(lambda: c.launcher.alive == [0])
        await turns()
        assert broker.of(Joined) == []
        log.commit()
        assert (await broker.hear(Joined)).cluster_id == c.metadata.cluster_id != ""


async def test_a_broker_is_started_again_when_its_loss_has_committed(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        c.server.expect([0])
        broker = await FakeBroker(0).register(c.port)
        log.held = True
        broker.hang_up()
        await until(lambda: not log.decided.brokers[0].alive)
        await turns()
        assert c.launcher.started == []
        assert c.metadata.brokers[0].alive
        log.commit()
        await until(lambda: c.launcher.started == [0])


async def test_what_is_dropped_is_told_to_nobody(tmp_path: Path) -> None:
    log = HeldLog()
    async with controller(tmp_path, log=log) as c:
        broker = await FakeBroker(0).register(c.port)
        told = len(broker.of(Image))
        log.held = True
        broker.ask("create_topics", 7, topics=[topic("t")])
        broker.ask("create_topics", 8, topics=[topic("t")])
        await until(lambda: "t" in log.decided.topics)
        await answered_by(broker)
        log.states.drop()
        await broker.hear(Failed, 2)
        assert broker.of(Answer) == []
        assert len(broker.of(Image)) == told
        assert log.decided == log.committed
        log.held = False
        log.append([ControllerEpochRecord(2)], epoch=2)  # that is why it was dropped
        answer = await broker.call("create_topics", 9, topics=[topic("u")])
        assert "another controller has begun" in answer["error"]


async def test_a_seal_leaves_when_it_has_committed(tmp_path: Path) -> None:
    write_private(tmp_path / POOLS_KEY, bytes(32).hex())
    log = HeldLog()
    version = SealedVersion("inc", 1, b"digest")
    async with controller(tmp_path, log=log) as c:
        seals = PoolSeals(tmp_path, lambda: log.decided.pools, c.server.publisher.commit)
        log.held = True
        asking = asyncio.create_task(c.server.committed(lambda: seals.answer(Seal("p", version))))
        await until(lambda: "p" in log.decided.pools.by_name)
        await turns()
        assert not asking.done()
        log.commit()
        assert isinstance(await asking, bytes)
        log.held = True
        asking = asyncio.create_task(c.server.committed(lambda: seals.answer(Seal("q", version))))
        await until(lambda: "q" in log.decided.pools.by_name)
        log.states.drop()
        with pytest.raises(NotControllerError):
            await asking


class Bug(Exception):  # noqa: N818 - it stands for any
    """An exception that only a bug raises."""


class FaultyLog(HeldLog):
    """Meets a bug at some records: `wrong` says at which."""

    def __init__(self, wrong: Callable[[Record], bool]) -> None:
        super().__init__()
        self.wrong = wrong

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        if any(map(self.wrong, records)):
            raise Bug("of the log")
        return super().append(records, epoch)


class Met:
    """The bugs that a controller has met."""

    def __init__(self) -> None:
        self.all: list[tuple[str, type[Exception]]] = []

    def __call__(self, what: str, error: Exception) -> None:
        self.all.append((what, type(error)))


async def test_a_request_that_meets_a_bug_costs_nothing_but_its_own_answer(tmp_path: Path) -> None:
    """However often it is sent again."""
    met, log = Met(), FaultyLog(lambda record: isinstance(record, ProducerIdsRecord))
    async with controller(tmp_path, log=log, faults=met) as c:
        broker = await FakeBroker(0).register(c.port)
        before = log.decided.copy()
        for number in (1, 2, 3):
            answer = await broker.call("allocate_producer_ids", number)
            assert answer == {"error": "the controller failed to carry out AllocateProducerIds: Bug"}
        assert log.decided == before
        assert met.all == [("AllocateProducerIds", Bug)] * 3
        assert (await broker.call("create_topics", 4, topics=[topic("t")]))["result"][0]["error_code"] == 0


async def test_a_broker_whose_registration_meets_a_bug_is_hung_up_on_and_others_register(tmp_path: Path) -> None:
    met, log = Met(), FaultyLog(lambda record: isinstance(record, BrokerRecord) and record.broker.id == 1)
    async with controller(tmp_path, log=log, faults=met) as c:
        for _ in range(2):
            wrong = await FakeBroker(1).connect(c.port)
            wrong.send(wrong.hello())
            await wrong.lost.wait()
        await FakeBroker(0).register(c.port)
        assert met.all == [("the registration of broker 1", Bug)] * 2
        assert list(c.metadata.brokers) == [0]


PARTS: dict[str, Callable[[Record], bool]] = {
    "death": lambda record: isinstance(record, BrokerRecord) and not record.broker.alive,
    "new process": lambda record: isinstance(record, BrokerRecord) and record.broker.alive,
    "election": lambda record: isinstance(record, PartitionRecord) and record.partition.leader == 0,
}


class WallClock:
    """A wall clock that a bug stops: what is noted then has no time."""

    stopped = False

    def __call__(self) -> int:
        if self.stopped:
            raise Bug("of the clock")
        return 7


@pytest.mark.parametrize("late", [False, True])
async def test_a_change_whose_events_meet_a_bug_is_answered_and_brokers_are_told(tmp_path: Path, late: bool) -> None:
    """It is made: to say that it failed would be false."""
    met, log, clock = Met(), HeldLog(), WallClock()
    async with controller(tmp_path, log=log, faults=met, environment=Environment(Clock(wall_ms=clock))) as c:
        broker = await FakeBroker(0).register(c.port)
        clock.stopped, log.held = True, late
        broker.ask("create_topics", 7, topics=[topic("t")])
        await until(lambda: "t" in log.decided.topics)
        log.commit()
        await broker.hear(Answer)
        assert broker.answer(7)["result"][0]["error_code"] == 0  # type: ignore[index]
        assert topics_told(broker)[-1] == ["t"]
        assert met.all == [("a change has no events", Bug)]


async def test_a_broker_that_cannot_be_told_costs_no_other_its_image_and_no_change_its_answer(tmp_path: Path) -> None:
    met = Met()
    async with controller(tmp_path, ack_wait_s=0.0, faults=met) as c:
        one, two = [await FakeBroker(i).register(c.port) for i in range(2)]
        c.server.brokers[0].protocol.version = -1  # no message has a form in it
        two.ask("create_topics", 7, topics=[topic("t")])
        await two.hear(Answer)
        assert topics_told(two)[-1] == ["t"]
        assert not any(topics_told(one))
        assert [what for what, _ in met.all] == ["broker 0 may not be told of a change"]


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
async def test_a_registration_of_which_one_part_cannot_be_logged_changes_nothing(
    tmp_path: Path, part: Callable[[Record], bool]
) -> None:
    """Brokers hear of a registration when it is whole: a part that committed alone would never be told."""
    met, log = Met(), FaultyLog(lambda record: False)
    async with controller(tmp_path, log=log, faults=met) as c:
        for broker_id in range(2):
            broker = await FakeBroker(broker_id).register(c.port)
        await create(broker, "t", partitions=2)
        before, log.wrong = log.decided.copy(), part
        again = await FakeBroker(0).connect(c.port)
        again.send(again.hello())
        await again.lost.wait()
        assert log.decided == log.committed == before
        assert met.all == [("the registration of broker 0", Bug)]
        log.wrong = lambda record: False
        await FakeBroker(0).register(c.port)
        assert c.metadata.brokers[0].epoch == before.brokers[0].epoch + 1
        await until(lambda: broker.of(Image)[-1].metadata.version == c.metadata.version)


async def test_a_death_that_meets_a_bug_is_recorded_later_and_others_are_at_once(tmp_path: Path) -> None:
    met = Met()
    log = FaultyLog(
        lambda record: isinstance(record, BrokerRecord) and (record.broker.id, record.broker.alive) == (0, False)
    )
    async with controller(tmp_path, log=log, faults=met) as c:
        brokers = [await FakeBroker(i).register(c.port) for i in range(3)]
        c.server.expect([0, 1])
        brokers[0].hang_up()
        await until(lambda: met.all)
        assert met.all == [("broker 0 still counts as alive", Bug)]
        brokers[1].hang_up()
        await until(lambda: not c.metadata.brokers[1].alive)
        log.wrong = lambda record: False
        c.server.tick()
        assert not c.metadata.brokers[0].alive
        assert c.metadata.brokers[2].alive
