"""`coterie status`: what it prints of the processes of a cluster, and of partitions that have none."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import pytest
from click.testing import CliRunner

from actors.cli.main import cli
from actors.cluster import Cluster
from actors.links.removals import RemovalStatus
from actors.links.status import (
    ASLEEP,
    Absence,
    BrokerStatus,
    ClusterStatus,
    ControllerStatus,
    Load,
    Refill,
    ShardStatus,
    TlsListener,
    plain,
)
from actors.runtime.priority import Priority

SHARDS = (
    ShardStatus(3, 41, "Active", 5, "group g is Stable"),
    ShardStatus(4, None, ASLEEP, 6, "since 2026-11-23 12:00:00Z, until asked"),
    ShardStatus(-1, 42, "Spare", -1),
)
TLS = (TlsListener("GOOD", 90.5, None, 7, 1), TlsListener("BAD", 4.5, "it cannot be read"))
WHY_NOT = Priority(15, "niceness -5 was not to be had: Permission denied")
BROKERS = (
    BrokerStatus(0, "127.0.0.1", 9092, None, 2, True, 40, None, "n0", SHARDS),
    BrokerStatus(1, "127.0.0.1", 9093, None, 2, True, 50, Load(tls=TLS, priority=Priority(-5)), "n0", ()),
    BrokerStatus(2, "127.0.0.1", 9094, None, 2, True, 60, Load(priority=WHY_NOT), "n0", ()),
    BrokerStatus(5, "127.0.0.1", 9097, None, 2, True, 70, None, "n0", (), removal=RemovalStatus(40, 12, 4, 0, 0, 30.4)),
)
NOON_MS = 1_795_435_200_000  # 2026-11-23 12:00:00Z
ABSENT = Absence(NOON_MS, node_is_gone=True)
AWAY = (
    replace(ABSENT, node_is_gone=False),
    replace(ABSENT, replaced_at_ms=NOON_MS + 1_800_000),
    replace(ABSENT, sole_copies=("t-0", "t-1", "t-2", "u-0")),
    replace(ABSENT, copies_away=("t-0",)),
    ABSENT,
    replace(ABSENT, replaced=True),
    replace(ABSENT, replaced_at_ms=2**63),
)
BROKERS += tuple(BrokerStatus(i, "h", 1, None, 2, False, None, None, absence=each) for i, each in enumerate(AWAY, 10))
BROKERS += tuple(
    BrokerStatus(i, "h", 1, None, 2, True, 60, None, drained_until_ms=until) for i, until in ((18, NOON_MS), (19, 0))
)
BROKERS += (BrokerStatus(20, "h", 1, None, 2, True, 60, None, refill=Refill(20, 12, 3_400_000)),)
FOUND = ClusterStatus("an-id", 1, BROKERS, "here")
CONTROLLERS = (
    ControllerStatus(0, "d0", "10.0.0.1", 50_000, "Voter", 0, NOON_MS, NOON_MS),
    ControllerStatus(1, "d1", "10.0.0.2", 50_001, "Leader", 0, NOON_MS, NOON_MS),
    ControllerStatus(2, "d2", "", 0, "Observer", 12, -1, -1),
)


def printed(monkeypatch: pytest.MonkeyPatch, found: ClusterStatus) -> list[dict[str, str]]:
    """The table of this status: the cells of each row by their heading."""

    class Running:
        def status(self) -> dict[str, Any]:
            return asdict(found)

    monkeypatch.setattr(Cluster, "connect", lambda *args, **options: nullcontext(Running()))
    done = CliRunner().invoke(cli, ["status"])
    assert done.exit_code == 0, done.output
    head, *lines = [[cell for cell in line.split("  ") if cell] for line in done.stdout.splitlines()]
    return [{name.strip(): cell.strip() for name, cell in zip(head, line, strict=True)} for line in lines]


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The cells of the table by their heading, for each partition, the spare ("-"), and brokers by their ids."""
    return {row["ID"]: row for row in printed(monkeypatch, FOUND) if row["ROLE"] != "controller"}


def test_of_several_controllers_each_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = printed(monkeypatch, replace(FOUND, controllers=CONTROLLERS))
    _, *each = [row for row in rows if row["ROLE"] == "controller"]
    assert [(row["ID"], row["STATE"], row["ADDRESS"], row["LOAD"], row["WHY"]) for row in each] == [
        ("0", "Voter", "10.0.0.1:50000", "has all records", "last heard 2026-11-23 12:00:00Z"),
        ("1", "Leader", "10.0.0.2:50001", "-", "-"),
        ("2", "Observer", "-", "12 records behind", "never heard"),
    ]
    alone = [row for row in printed(monkeypatch, FOUND) if row["ROLE"] == "controller"]
    assert [row["STATE"] for row in alone] == ["Active"]


def test_a_partition_that_sleeps_has_no_pid_and_says_until_when(cells: dict[str, dict[str, str]]) -> None:
    row = cells["__consumer_offsets-4"]
    assert (row["STATE"], row["PID"], row["EPOCH"]) == ("Asleep", "-", "6")
    assert row["WHY"] == "since 2026-11-23 12:00:00Z, until asked"


def test_a_partition_that_is_awake_says_what_keeps_it(cells: dict[str, dict[str, str]]) -> None:
    row = cells["__consumer_offsets-3"]
    assert (row["STATE"], row["PID"], row["WHY"]) == ("Active", "41", "group g is Stable")


def test_a_spare_says_nothing(cells: dict[str, dict[str, str]]) -> None:
    assert (cells["-"]["STATE"], cells["-"]["WHY"]) == ("Spare", "-")


def test_a_broker_says_which_certificates_it_does_not_take(cells: dict[str, dict[str, str]]) -> None:
    assert cells["1"]["WHY"] == "certificates of BAD: it cannot be read"
    assert cells["0"]["WHY"] == "-"


def test_a_broker_says_why_it_has_no_priority(cells: dict[str, dict[str, str]]) -> None:
    assert cells["2"]["WHY"] == "niceness -5 was not to be had: Permission denied"


@pytest.mark.parametrize(
    ("broker", "what"),
    [
        (
            "11",
            "it is replaced by itself at 2026-11-23 12:30:00Z, or now by coterie brokers replace 11 --node-is-off",
        ),
        (
            "12",
            "it is not replaced by itself, for it alone has everything of t-0, t-1, t-2 and 1 more: bring its node or "
            "its disk back, or type coterie brokers replace 12 --accept-data-loss",
        ),
        (
            "13",
            "it is not replaced by itself while the other copies of t-0 are away: bring one of them back, or type "
            "coterie brokers replace 13",
        ),
        ("14", "it is not replaced by itself: type coterie brokers replace 14"),
    ],
    ids=["in time", "a sole copy", "the others are away", "never by itself"],
)
def test_a_broker_whose_node_is_gone_says_since_when_and_what_becomes_of_it(
    cells: dict[str, dict[str, str]], broker: str, what: str
) -> None:
    assert cells[broker]["STATE"] == "Dead"
    assert cells[broker]["WHY"] == f"its node is gone, since 2026-11-23 12:00:00Z; {what}"


def test_a_broker_that_is_away_says_since_when(cells: dict[str, dict[str, str]]) -> None:
    assert cells["10"]["WHY"] == "away since 2026-11-23 12:00:00Z"
    assert cells["15"]["WHY"] == (
        "replaced: it is started with an empty directory, and is away since 2026-11-23 12:00:00Z"
    )


def test_a_replacement_later_than_any_date_has_the_last_one(cells: dict[str, dict[str, str]]) -> None:
    assert "replaced by itself at 9999-12-31" in cells["16"]["WHY"]


def test_a_broker_that_is_filled_says_what_is_left(cells: dict[str, dict[str, str]]) -> None:
    assert cells["20"]["WHY"] == "out of sync in 12 partitions, about 3.4 MB left"


def test_a_broker_whose_node_is_drained_says_until_when_if_that_is_known(cells: dict[str, dict[str, str]]) -> None:
    leads = "it leads only what no other broker can lead"
    assert cells["18"]["WHY"] == f"its Ray node is drained, until 2026-11-23 12:00:00Z: {leads}"
    assert cells["19"]["WHY"] == f"its Ray node is drained: {leads}"


def test_a_broker_that_is_being_removed_says_how_far_that_is(cells: dict[str, dict[str, str]]) -> None:
    assert cells["5"]["WHY"] == "being removed: 12 of 40 partitions left, 4 under way, about 30 s"


def test_what_a_controller_of_an_earlier_build_does_not_tell_has_its_default() -> None:
    """Ray pickles what it tells: the values of the fields that there were, in their order."""
    told = object.__new__(BrokerStatus)
    told.__setstate__([0, "h", 9092, None, 2, True, 40, None, "n0", SHARDS])  # type: ignore[attr-defined]
    (row,) = plain(ClusterStatus("an-id", 1, (told,)))["brokers"]
    assert (row["absence"], row["refill"], row["removal"]) == (None, None, None)
    assert row == asdict(BrokerStatus(0, "h", 9092, None, 2, True, 40, None, "n0", SHARDS))
