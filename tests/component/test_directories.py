"""Data directories of brokers as the controller knows them, over real sockets: recorded, and others are fenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controller.replacing import CannotReplaceError
from actors.links.control import Heartbeat
from actors.links.status import Load
from actors.links.versions import Spoken
from placement.metadata import Directory
from placement.records import METADATA_VERSION, BrokerDirectoryRecord, FeatureLevelRecord
from tests.support.controller_world import Controller, controller, create, older_log
from tests.support.runtime_helpers import FakeBroker, until


@pytest.mark.conformance("N-D-02")
async def test_a_broker_with_another_directory_than_it_had_is_fenced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path) as c:
        first = await FakeBroker(0, directory="d0").register(c.port)
        assert c.metadata.directories == {0: Directory("d0")}
        first.hang_up()
        for directory in ("d1", ""):
            other = await FakeBroker(0, directory=directory).connect(c.port)
            other.send(other.hello())
            await other.lost.wait()
        assert (
            "broker 0 is fenced: its data directory is d1, and that of broker 0 is d0: it was replaced" in caplog.text
        )
        assert c.metadata.directories == {0: Directory("d0")}
        assert not c.server.brokers
    async with controller(tmp_path) as c:
        await FakeBroker(0, directory="d0").register(c.port)
        assert c.metadata.brokers[0].alive


async def test_a_directory_that_is_awaited_is_there_once_its_broker_has_registered(tmp_path: Path) -> None:
    async with controller(tmp_path) as c:
        c.server.publisher.commit([BrokerDirectoryRecord(0, Directory("d1", awaited=True))])
        await FakeBroker(0, directory="d1").register(c.port)
        assert c.metadata.directories == {0: Directory("d1")}


@pytest.mark.conformance("N-E-04")
async def test_directories_are_recorded_once_all_brokers_speak_a_version_that_tells_them(tmp_path: Path) -> None:
    older_log(tmp_path)
    async with controller(tmp_path) as c:
        new = await FakeBroker(0, directory="d0").register(c.port)
        old = await FakeBroker(1, directory="d1", spoken=Spoken(0, 1, "0.1.0")).register(c.port)
        assert c.metadata.directories == {}
        refused = await new.call("raise_metadata_version", 1, level=3)
        assert refused["result"]["error_message"].startswith("broker 1 (build 0.1.0) speaks versions 0 to 1, which")
        old.hang_up()
        await FakeBroker(1, directory="d1").register(c.port)
        c.server.publisher.commit([FeatureLevelRecord(METADATA_VERSION, 3)])
        assert c.metadata.directories == {}
        new.send(Heartbeat(0.0, Load()))
        await until(lambda: c.metadata.directories == {0: Directory("d0")})


# --- replacements ---

SETTINGS = {"coterie_broker_isolated_ms": "900000", "coterie_broker_replace_after_ms": "1800000"}


async def lost_with(c: Controller, factor: int) -> FakeBroker:
    """Broker 0 of two, after the other one is gone, with a topic of this factor that both had."""
    one = await FakeBroker(0, directory="d0").register(c.port)
    two = await FakeBroker(1, directory="d1").register(c.port)
    c.server.expect([0, 1])
    await create(one, "t", 2, factor)
    two.hang_up()
    await until(lambda: c.launcher.started == [1])
    c.launcher.started.clear()
    return one


@pytest.mark.conformance("N-D-03")
async def test_a_broker_that_is_there_or_may_serve_alone_is_not_replaced(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        await lost_with(c, 2)
        for broker_id, why in (
            (0, "is there"),
            (1, r"wait (900|899) s more .*--node-is-off"),
            (7, "there is no broker"),
        ):
            with pytest.raises(CannotReplaceError, match=why):
                c.server.replacing.replace(broker_id)
        c.clock.ahead += 900.1
        c.server.replacing.replace(1)
        await until(lambda: c.launcher.started == [1])
        assert c.metadata.directories[1].awaited
        assert c.launcher.moved == []


@pytest.mark.conformance("N-D-01")
async def test_a_broker_whose_node_is_off_is_started_elsewhere_and_its_former_process_is_fenced(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        await lost_with(c, 2)
        c.server.replacing.replace(1, node_is_off=True)
        await until(lambda: c.launcher.started == [1])
        assert c.launcher.moved == [1]
        assert [p.isr for p in c.metadata.topics["t"].partitions] == [(0,), (0,)]
        former = await FakeBroker(1, directory="d1").connect(c.port)
        former.send(former.hello())
        await former.lost.wait()
        new = c.metadata.directories[1].id
        await FakeBroker(1, directory=new).register(c.port)
        assert c.metadata.directories[1] == Directory(new)
        assert [p.isr for p in c.metadata.topics["t"].partitions] == [(0,), (0,)], "it has yet to catch up"
    async with controller(tmp_path, **SETTINGS) as c:
        assert c.metadata.directories[1] == Directory(new), "it is in the log"


@pytest.mark.conformance("N-D-02")
async def test_sole_copies_are_named_and_given_up_by_a_persons_word_alone(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        await lost_with(c, 1)
        index = next(i for i in (0, 1) if c.leader("t", i).replicas == (1,))
        outlook = c.server.replacing.outlook(1, node_is_off=True)
        assert (outlook.partitions, outlook.sole_copies, outlook.refused) == (1, (f"t-{index}",), None)
        with pytest.raises(
            CannotReplaceError, match=f"broker 1 alone has everything of t-{index}: .*--accept-data-loss"
        ):
            c.server.replacing.replace(1, node_is_off=True)
        assert c.metadata.directories[1] == Directory("d1")
        c.server.replacing.replace(1, node_is_off=True, accept_data_loss=True)
        await FakeBroker(1, directory=c.metadata.directories[1].id).register(c.port)
        assert (c.leader("t", index).leader, c.leader("t", index).unclean) == (1, True)


@pytest.mark.conformance("N-D-02")
@pytest.mark.parametrize(
    ("factor", "gone", "after_ms", "replaced"),
    [(2, True, 1_800_000, True), (2, False, 1_800_000, False), (1, True, 1_800_000, False), (2, True, -1, False)],
    ids=["its node is gone", "its node is there", "it has a sole copy", "never by itself"],
)
async def test_a_broker_is_replaced_by_itself_once_its_node_is_gone_for_long_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, factor: int, gone: bool, after_ms: int, replaced: bool
) -> None:
    settings = {**SETTINGS, "coterie_broker_replace_after_ms": str(after_ms)}
    async with controller(tmp_path, **settings) as c:
        await lost_with(c, factor)
        c.launcher.homeless = {1} if gone else set()
        c.clock.ahead += 1799.0
        c.server.replacing.tick()
        assert not c.metadata.directories[1].awaited, "it is not time"
        c.clock.ahead += 1.5
        c.server.replacing.tick()
        c.server.replacing.tick()
        assert c.metadata.directories[1].awaited is replaced
        assert caplog.text.count("alone has everything of t-") == (factor == 1)


async def test_no_broker_is_replaced_by_itself_while_the_other_copies_are_away_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller is cut off, or all nodes start again one after the other: what is on their disks still counts."""
    async with controller(tmp_path, **SETTINGS) as c:
        one = await lost_with(c, 2)
        one.hang_up()
        await until(lambda: c.launcher.started == [0])
        c.launcher.homeless = {0, 1}
        c.clock.ahead += 1801.0
        c.server.replacing.tick()
        assert not any(directory.awaited for directory in c.metadata.directories.values())
        assert "it is not replaced by itself: the other copies of t-0, t-1 are on brokers that are away" in caplog.text
        outlook = c.server.replacing.outlook(1, node_is_off=False)
        assert (outlook.sole_copies, outlook.copies_away, outlook.refused) == ((), ("t-0", "t-1"), None)
        await FakeBroker(0, directory="d0").register(c.port)
        c.server.replacing.tick()
        assert [c.metadata.directories[broker_id].awaited for broker_id in (0, 1)] == [False, True]


@pytest.mark.conformance("N-D-03")
async def test_a_controller_that_stood_still_waits_anew(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        await lost_with(c, 2)
        c.clock.ahead += 900.1
        c.server.replacing.wait_anew()
        with pytest.raises(CannotReplaceError, match="900 s more"):
            c.server.replacing.replace(1)


async def test_a_status_says_since_when_a_broker_is_away_and_when_it_is_replaced(tmp_path: Path) -> None:
    async with controller(tmp_path, **SETTINGS) as c:
        await lost_with(c, 2)
        assert c.server.absence(0) is None
        absence = c.server.absence(1)
        assert absence is not None
        assert (absence.node_is_gone, absence.replaced, absence.sole_copies) == (False, False, ())
        assert absence.replaced_at_ms == absence.since_ms + 1_800_000
        c.clock.ahead += 900.0
        c.launcher.homeless = {1}
        c.server.replacing.tick()
        later = c.server.absence(1)
        assert later is not None
        assert later.node_is_gone
        assert abs(later.since_ms + 900_000 - absence.since_ms) < 60_000, "wall time, which stood still here"
        c.launcher.homeless = set()
        for _ in range(5):
            c.server.replacing.tick()
        back = c.server.absence(1)
        assert back is not None
        assert not back.node_is_gone, "its node is back, and its broker does not start"
        c.server.replacing.replace(1, node_is_off=True)
        await until(lambda: c.launcher.started == [1])
        replaced = c.server.absence(1)
        assert replaced is not None
        assert (replaced.replaced, replaced.replaced_at_ms) == (True, None)
        await FakeBroker(1, directory=c.metadata.directories[1].id).register(c.port)
        assert c.server.absence(1) is None


@pytest.mark.parametrize("after_ms", [1_800_000, -1])
async def test_a_status_names_the_partitions_that_keep_a_broker_from_being_replaced(
    tmp_path: Path, after_ms: int
) -> None:
    settings = {**SETTINGS, "coterie_broker_replace_after_ms": str(after_ms)}
    async with controller(tmp_path, **settings) as c:
        await lost_with(c, 1)
        c.launcher.homeless = {1}
        c.server.replacing.tick()
        index = next(i for i in (0, 1) if c.leader("t", i).replicas == (1,))
        absence = c.server.absence(1)
        assert absence is not None
        assert (absence.node_is_gone, absence.replaced_at_ms) == (True, None)
        assert (absence.sole_copies, absence.copies_away) == ((f"t-{index}",), ())
    (tmp_path / "away").mkdir()
    async with controller(tmp_path / "away", **settings) as c:
        one = await lost_with(c, 2)
        one.hang_up()
        await until(lambda: c.launcher.started == [0])
        absence = c.server.absence(1)
        assert absence is not None
        assert (absence.sole_copies, absence.copies_away, absence.replaced_at_ms) == ((), ("t-0", "t-1"), None)
