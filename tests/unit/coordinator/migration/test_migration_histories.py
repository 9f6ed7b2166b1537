"""Histories of groups that change from one protocol to the other while they have members, each a table.

Rows are as those of consumer groups: the request, the answer, the records, and the state of the group then. 1.1 s lie
between two rows, or as much as a row says. Requests of classic members are in the notation of
tests/support/classic_members.py.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

import pytest

from actors.coordinator.classic.type import Classic as ClassicType
from actors.coordinator.consumer.records import CONSUMER_RECORDS, MemberRecord
from actors.coordinator.consumer.type import Consumer
from actors.coordinator.group_types import GroupShard, group_shard
from actors.coordinator.records import RecordType
from tests.support.classic_members import Classic, MixedDriver

Row = tuple[str, str, str, str]


class History(NamedTuple):
    """A history, the rows before it that are not its own, and the members of the classic group that it begins with."""

    rows: list[Row]
    before: list[Row] = []
    members: tuple[tuple[str, str], ...] = (("C1", "0-5"),)
    policy: str = "bidirectional"


C1_IS_CONVERTED = "x2; 5(C1); 3(5); 7(C1: 0-5); 6(5,0); 8(C1: e5/p5 STABLE 0-5@5 | -)"
A_JOINS = "5(A); 3(6); 7(C1: 0-2); 7(A: 3-5); 6(6); 8(A: e6/p0 UNRELEASED - | -)"
UPGRADE: list[Row] = [("A e0 join", "e6 asg -", f"{C1_IS_CONVERTED}; {A_JOINS}", "6/6 Reconciling")]
EAGER: list[Row] = [
    ("C1 beat g5", "27", "none", ""),
    ("C1 join", "g6", "5(C1); 8(C1: e6/p5 STABLE 0-2@5 | -)", ""),
    ("C1 sync g6", "0-2", "none", ""),
    ("A e6", "e6 asg 3-5", "8(A: e6/p6 STABLE 3-5@6 | -)", "6/6 Stable"),
    ("C1 commit g5 0", "0", "1", ""),
    ("C1 commit g5 3", "22", "none", ""),
    ("C1 commit g6 0", "0", "1", ""),
]
COOPERATIVE: list[Row] = [
    ("C1 beat g5", "27", "none", ""),
    ("C1 join own=0-5", "g5", "5(C1); 8(C1: e5/p5 UNREVOKED 0-2@5 | 3-5@5)", ""),
    ("C1 sync g5", "0-2", "none", ""),
    ("C1 beat g5", "27", "none", ""),
    ("C1 join own=0-2", "g6", "5(C1); 8(C1: e6/p5 STABLE 0-2@5 | -)", ""),
    ("C1 sync g6", "0-2", "none", ""),
    ("A e6", "e6 asg 3-5", "8(A: e6/p6 STABLE 3-5@6 | -)", "6/6 Stable"),
]
TWO = (("C1", "0-2"), ("C2", "3-5"))
TWO_ARE_CONVERTED = (
    "x2; 5(C1); 5(C2); 3(5); 7(C1: 0-2); 7(C2: 3-5); 6(5,0); "
    "8(C1: e5/p5 STABLE 0-2@5 | -); 8(C2: e5/p5 STABLE 3-5@5 | -)"
)
ROLLED: list[Row] = [
    (
        "A e0 join",
        "e6 asg -",
        f"{TWO_ARE_CONVERTED}; 5(A); 3(6); 7(C1: 0-1); 7(C2: 3-4); 7(A: 2,5); 6(6); 8(A: e6/p0 UNRELEASED - | -)",
        "6/6 Reconciling",
    ),
    ("C1 beat g5", "27", "none", ""),
    ("+0 C1 join", "g6", "5(C1); 8(C1: e6/p5 STABLE 0-1@5 | -)", ""),
    ("+0 C1 sync g6", "0-1", "none", ""),
    ("A e6", "e6 asg 2", "8(A: e6/p6 UNRELEASED 2@6 | -)", ""),
    ("C2 beat g5", "27", "none", ""),
    ("+0 C2 join", "g6", "5(C2); 8(C2: e6/p5 STABLE 3-4@5 | -)", ""),
    ("+0 C2 sync g6", "3-4", "none", ""),
    ("A e6", "e6 asg 2,5", "8(A: e6/p6 STABLE 2,5@6 | -)", "6/6 Stable"),
    ("C1 leave", "0", "x8(C1); x7(C1); x5(C1); 3(7)", "7/6 Assigning"),
    ("+0 C2 beat g6", "0", "none", "7/6 Assigning"),
    (
        "A e6",
        "e7 asg 0,2,5",
        "7(A: 0,2,5); 7(C2: 1,3-4); 6(7); 8(A: e7/p6 STABLE 2,5@6 0@7 | -)",
        "7/7 Reconciling",
    ),
    ("C2 beat g6", "27", "none", ""),
    ("+0 C2 join", "g7", "8(C2: e7/p6 STABLE 3-4@5 1@7 | -)", ""),
    ("+0 C2 sync g7", "1,3-4", "none", "7/7 Stable"),
]

HISTORIES = {
    "H-10 upgrade with an eager member": History([*UPGRADE, *EAGER]),
    "H-11 upgrade with a cooperative member": History(COOPERATIVE, UPGRADE),
    "H-17 one classic member is left": History(ROLLED, members=TWO),
    "H-17 forward": History(
        [
            ("C2 leave", "0", "x8(C2); x7(C2); x5(C2); 3(8)", "8/7 Assigning"),
            ("A e7", "e8 asg 0-5", "7(A: 0-5); 6(8); 8(A: e8/p7 STABLE 2,5@6 0@7 1,3-4@8 | -)", "8/8 Stable"),
        ],
        ROLLED,
        TWO,
    ),
}
LEFT_ALONE = "x8(C1); x8(A); x7(C1); x7(A); x6; x5(C1); x5(A); x4; x3"
A_LEAVES: list[Row] = [
    ("A e-1", "e-1", f"{LEFT_ALONE}; 2(6 leader C1, C1: 0-2)", "classic PreparingRebalance"),
]
OF_TWO = "x8(C2); x8(A); x7(C2); x7(A); x6; x5(C2); x5(A); x4; x3"
AGAIN_FROM_8 = (
    "x2; 5(C2); 3(8); 7(C2: 0-5); 6(8,0); 8(C2: e8/p8 STABLE 0-5@8 | -); "
    "5(A); 3(9); 7(C2: 0-2); 7(A: 3-5); 6(9); 8(A: e9/p0 UNRELEASED - | -)"
)
# The last target was computed at 7; then somebody left, so the group goes back with an epoch that nobody has.
BEHIND: list[Row] = [
    ("C1 beat g5", "27", "none", ""),
    ("C1 join", "g6", "5(C1); 8(C1: e6/p5 STABLE 0-1@5 | -)", ""),
    ("C2 beat g5", "27", "none", ""),
    ("C2 join", "g6", "5(C2); 8(C2: e6/p5 STABLE 3-4@5 | -)", ""),
    ("A e6", "e6 asg 2,5", "", "6/6 Stable"),
    ("C1 leave", "0", "x8(C1); x7(C1); x5(C1); 3(7)", "7/6 Assigning"),
    ("A e-1", "e-1", f"{OF_TWO}; 2(7 leader C2, C2: 3-4)", "classic PreparingRebalance"),
    ("C2 beat g6", "22", "none", ""),
    ("C2 join", "g8", "none", "classic CompletingRebalance"),
]
HISTORIES |= {
    "H-12 downgrade": History(
        [
            *A_LEAVES,
            ("C1 beat g6", "27", "none", ""),
            ("C1 join", "g7", "none", "classic CompletingRebalance"),
        ],
        UPGRADE + COOPERATIVE,
    ),
    "H-17 back": History(
        [
            ("A e-1", "e-1", f"{OF_TWO}; 2(7 leader C2, C2: 1,3-4)", "classic PreparingRebalance"),
            ("C2 beat g7", "27", "none", ""),
            ("C2 join", "g8", "none", "classic CompletingRebalance"),
            ("C2 lead g8 0-5", "0-5", "2(8 leader C2, C2: 0-5)", "classic Stable"),
            ("A e0 join", "e9 asg -", AGAIN_FROM_8, "9/9 Reconciling"),
        ],
        ROLLED,
        TWO,
    ),
    "K-E-47 a member that is behind learns by its generation": History(BEHIND, ROLLED[:1], TWO),
    "H-17 with policy upgrade": History(
        [
            ("A e-1", "e-1", "x8(A); x7(A); x5(A); 3(8)", "8/7 Assigning"),
            # Kafka answers 0 here, for ever.
            ("C2 beat g7", "27", "7(C2: 0-5); 6(8)", "8/8 Reconciling"),
            ("C2 join", "g8", "8(C2: e8/p7 STABLE 3-4@5 1@7 0,2,5@8 | -)", "8/8 Stable"),
            ("C2 sync g8", "0-5", "none", ""),
        ],
        ROLLED,
        TWO,
        policy="upgrade",
    ),
}

_AFTER = re.compile(r"\+(\d+) ?(.*)")


def expect_row(driver: MixedDriver, row: Row) -> None:
    """Carry out a row, and compare."""
    does, answer, records, stands = row
    delayed = _AFTER.fullmatch(does)
    at = len(driver.log)
    driver.advance(int(delayed[1]) if delayed else 1_100)
    does = delayed[2] if delayed else does
    told = _do(driver, does) if does else ""
    assert not answer or told == answer, row
    if records:
        assert _ordered(driver.written(at)) == _ordered(_split(records)), row
    assert not stands or _stands(driver, stands) == stands, row


def _stands(driver: MixedDriver, like: str) -> str:
    return driver.type_of() if like.startswith("classic") else driver.stands()


def _split(records: str) -> list[str]:
    return [] if records == "none" else records.split("; ")


def _ordered(records: list[str]) -> list[str]:
    """The order of members in records of one type that are written together is free."""
    runs = groupby(records, key=lambda each: each.partition("(")[0])
    return [each for _, run in runs for each in sorted(run)]


def _do(driver: MixedDriver, does: str) -> str:
    member_id, verb, *words = does.split()
    if verb == "commit":
        return " ".join(map(str, driver.commits(member_id, int(words[0][1:]), " ".join(words[1:]))))
    return driver.told(does) if re.fullmatch(r"e-?\d+", verb) else driver.classic(does)


def played(history: History, kind: type[MixedDriver] = MixedDriver) -> MixedDriver:
    """A driver that has gone through the rows before a history."""
    driver = kind(*(Classic(*each) for each in history.members), policy=history.policy)
    for row in history.before:
        expect_row(driver, row)
    return driver


@pytest.mark.conformance("K-E-05", "K-E-17", "K-E-18", "K-E-24", "K-E-26", "K-E-31", "K-E-35", "K-E-36", "K-E-47")
@pytest.mark.conformance("K-C-43", "K-C-44", "K-E-45")
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_goes_as_kafkas(name: str) -> None:
    history = HISTORIES[name]
    driver = played(history)
    for row in history.rows:
        expect_row(driver, row)


def expect_the_same_after_failovers(name: str, kind: type[MixedDriver]) -> None:
    """Go through a history once for each of its rows, with a failover before that one."""
    history = HISTORIES[name]
    for at in range(len(history.rows)):
        driver = played(history, kind)
        for row in history.rows[:at]:
            expect_row(driver, row)
        if driver.type_of() == "classic CompletingRebalance":
            continue  # after a failover, members that have joined have to join again
        driver.fail_over()
        for row in history.rows[at:]:
            expect_row(driver, row)


@pytest.mark.conformance("K-C-60", "K-B-62")
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_goes_on_the_same_after_a_failover_at_each_row(name: str) -> None:
    expect_the_same_after_failovers(name, MixedDriver)


class Forgetful(Consumer):
    """Consumer groups with a bug: classic members are forgotten when a log is loaded."""

    record_types = tuple(
        RecordType(each.number, lambda key, value, read=each.decode: _forgetting(read(key, value)))  # type: ignore[misc]
        if each.number == MemberRecord.number
        else each
        for each in CONSUMER_RECORDS
    )


def _forgetting(change: MemberRecord) -> MemberRecord:
    is_classic = change.metadata is not None and change.metadata.classic is not None
    return MemberRecord(change.group_id, change.member_id) if is_classic else change


class ForgetfulDriver(MixedDriver):
    def _new_shard(self) -> GroupShard:
        self.types = (ClassicType(), Forgetful(self.assignors, self.settings))
        return group_shard(self.config, lambda: str(UUID(int=next(self._ids))), self.types)


def test_an_upgraded_member_forgotten_at_a_reload_would_be_noticed() -> None:
    for name in ("H-10 upgrade with an eager member", "H-17 one classic member is left", "H-12 downgrade"):
        with pytest.raises(AssertionError):
            expect_the_same_after_failovers(name, ForgetfulDriver)
