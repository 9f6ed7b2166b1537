"""Histories of consumer groups, each a table: the request, the answer, the records, and the state of the group then.

1.1 s lie between two rows, or as much as a row says (`+200 B e0 join`). An empty cell is not checked; `none` says
that there are no records. Beside heartbeats there are `commit A e2 0,4` and `foo has 8`. The notation is that of
tests/support/consumer_groups.py.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from actors.coordinator.consumer.topics import Topic
from tests.support.consumer_groups import BAR, FOO, FOOBAR, T1, ConsumerDriver

Row = tuple[str, str, str, str]


class History(NamedTuple):
    """A history, and the rows before it that are not its own."""

    rows: list[Row]
    before: list[Row] = []
    topics: tuple[Topic, ...] = (FOO,)


H1: list[Row] = [
    ("A e0 join", "e2 asg 0-5", "5(A); 3(2); 7(A: 0-5); 6(2); 8(A: e2/p0 STABLE 0-5@2 | -)", "2/2 Stable"),
    ("A e2 own=0-5", "e2", "none", "2/2 Stable"),
    ("A e2", "e2", "none", "2/2 Stable"),
]
B_JOINS = "5(B); 3(3); 7(A: 0-2); 7(B: 3-5); 6(3); 8(B: e3/p0 UNRELEASED - | -)"
H2: list[Row] = [
    ("B e0 join", "e3 asg -", B_JOINS, "3/3 Reconciling"),
    ("A e2", "e2 asg 0-2", "8(A: e2/p2 UNREVOKED 0-2@2 | 3-5@2)", ""),
    ("B e3 own=[]", "e3", "8(B: e3/p3 UNRELEASED - | -)", ""),
    ("A e2", "e2", "none", ""),
    ("B e3", "e3", "none", ""),
    ("commit A e2 4", "0", "1", ""),
    ("A e2 own=0-2", "e3", "8(A: e3/p2 STABLE 0-2@2 | -)", ""),
    ("commit A e2 0", "0", "1", ""),
    ("commit A e2 0,4", "113 113", "none", ""),
    ("B e3", "e3 asg 3-5", "8(B: e3/p3 STABLE 3-5@3 | -)", "3/3 Stable"),
    ("B e3 own=3-5", "e3", "none", "3/3 Stable"),
    ("commit B e2 3", "113", "none", ""),
]
B_IS_REMOVED = "x8(B); x7(B); x5(B); 3(4)"
A_GETS_ALL = "7(A: 0-5); 6(4); 8(A: e4/p3 STABLE 0-2@2 3-5@4 | -)"
H3: list[Row] = [
    ("+39000 A e3", "e3", "none", "3/3 Stable"),
    ("+5000", "", B_IS_REMOVED, "4/3 Assigning"),
    ("A e3", "e4 asg 0-5", A_GETS_ALL, "4/4 Stable"),
    ("B e3", "25", "none", ""),
    ("commit B e3 3", "25", "none", ""),
]
STATIC: list[Row] = [
    ("A1 e0 join as=i-a", "e2 asg 0-5", "", ""),
    ("B e0 join", "e3 asg -", "", ""),
    ("A1 e2", "e2 asg 0-2", "", ""),
    ("A1 e2 own=0-2", "e3", "8(A1: e3/p2 STABLE 0-2@2 | -)", ""),
    ("B e3 own=[]", "e3 asg 3-5", "8(B: e3/p3 STABLE 3-5@3 | -)", "3/3 Stable"),
]
A1_IS_AWAY = ("A1 e-2 as=i-a", "e-2", "8(A1: e-2/p2 STABLE 0-2@0 | -)", "3/3 Reconciling")
A2_COMES = "x8(A1); x7(A1); x5(A1); 5(A2); 7(A2: 0-2); 8(A2: e0/p0 STABLE 0-2@0 | -); 8(A2: e3/p0 STABLE 0-2@0 | -)"
TWO_TOPICS = (FOO, BAR)
NARROW: list[Row] = [
    ("A e0 R names=foo,bar own=[]", "e2 asg 0-5 T3:0", "", "2/2 Stable"),
]
A_IS_TOLD = "8(A: e2/p2 UNREVOKED 0-5@2 | T3:0@2)"

A_HAS_ALL = "8(A: e2/p1 STABLE 0-5@2 T2:0-1@2 | -)"
A_GIVES_ALL = "8(A: e2/p2 UNREVOKED - | 0-5@2 T2:0-1@2)"
B_JOINS_BY_REGEX = "5(B); 3(3); 7(A: 0-3); 7(B: 4-5 T2:0-1); 6(3); 8(B: e3/p0 UNRELEASED - | -)"
FOO2 = Topic(bytes(range(64, 80)), "foo2", 1)
BY_REGEX: list[Row] = [
    ("A e0 R names= regex=foo.* own=[]", "e1 asg -", "", ""),
    ("resolve", "", "", ""),
    ("A e1", "e2 asg 0-5 T2:0-1", "", ""),
    ("B e0 R names= regex=foo.* own=[]", "e3 asg -", "", ""),
]

HISTORIES = {
    "H-1 first member": History(H1),
    "H-2 a second member takes half": History(H2, H1),
    "H-3 a member dies": History(
        [
            *H3,
            (
                "B e0 join",
                "e5 asg -",
                "5(B); 3(5); 7(A: 0-2); 7(B: 3-5); 6(5); 8(B: e5/p0 UNRELEASED - | -)",
                "5/5 Reconciling",
            ),
        ],
        H1 + H2,
    ),
    "H-3 and joins again at once": History(
        [*H3, ("+0 A e4", "e4", "none", ""), ("+0 B e0 join", "e5 asg -", "", "5/5 Reconciling")], H1 + H2
    ),
    "H-3 step 6: within the interval": History(
        [*H3[:3], ("+900 B e0 join", "e4 asg -", "5(B); 3(5); 8(B: e4/p0 STABLE - | -)", "5/4 Assigning")], H1 + H2
    ),
    "H-4 the one who does not revoke": History(
        [
            *[("+40000 A e2", "e2", "none", "3/3 Reconciling"), ("+0 B e3", "e3", "none", "")] * 7,
            ("+18000 B e3", "e3", "none", "3/3 Reconciling"),
            ("+900 A e2", "25", "x8(A); x7(A); x5(A); 3(4)", "4/3 Assigning"),
            ("B e3", "e4 asg 0-5", "7(B: 0-5); 6(4); 8(B: e4/p3 STABLE 0-5@4 | -)", "4/4 Stable"),
            ("A e2", "25", "none", ""),
        ],
        [*H1, *H2[:2], ("B e3 own=[]", "e3", "", "")],
    ),
    "H-5 wrong epochs": History(
        [
            ("A e2 R names=foo own=0-2", "e3 asg 0-2", "none", ""),
            ("A e2", "110", "none", ""),
            ("A e2 own=0-5", "110", "none", ""),
            ("A e4", "110", "none", ""),
            ("A e2 own=[]", "e3", "none", ""),
            ("A e1 own=[]", "110", "none", ""),
            ("A e3 R names=foo own=0-2", "e3 asg 0-2", "none", ""),
        ],
        H1 + H2[:7],
    ),
    "H-6 a static member restarts": History(
        [
            ("A1 e0 join as=i-a", "111", "none", ""),
            ("A9 e0 join as=i-a", "111", "none", ""),
            A1_IS_AWAY,
            ("B e3", "e3", "none", "3/3 Reconciling"),
            ("commit A1 e3 0", "113", "none", ""),
            ("commit A1 e-2 0", "0", "1", ""),
            ("A2 e0 join as=i-a", "e3 asg 0-2", A2_COMES, "3/3 Stable"),
            ("A1 e3 as=i-a", "82", "none", ""),
            ("A1 e3", "25", "none", ""),
            ("commit A2 e0 0", "0", "1", ""),
            ("commit A2 e2 0", "0", "1", ""),
            ("commit A2 e3 0", "0", "1", ""),
        ],
        STATIC,
    ),
    "H-6 with another client id": History(
        [
            A1_IS_AWAY,
            (
                "A2 e0 join as=i-a client=d",
                "e3 asg 0-2",
                A2_COMES.replace("; 8(A2: e3", "; 5(A2); 8(A2: e3"),
                "3/3 Stable",
            ),
        ],
        STATIC,
    ),
    "H-6 and does not come back": History(
        [
            ("A1 e3", "e3", "none", ""),
            ("+20000 A1 e-2 as=i-a", "e-2", "8(A1: e-2/p2 STABLE 0-2@0 | -)", "3/3 Reconciling"),
            ("+20000 B e3", "e3", "none", "3/3 Reconciling"),
            ("+5000", "", "x8(A1); x7(A1); x5(A1); 3(4)", "4/3 Assigning"),
        ],
        STATIC,
    ),
    "H-7 the topic grows": History(
        [
            ("foo has 8", "", "none", "3/3 Stable"),
            (
                "B e3",
                "e4 asg 3-5,7",
                "3(4); 7(A: 0-2,6); 7(B: 3-5,7); 6(4); 8(B: e4/p3 STABLE 3-5@3 7@4 | -)",
                "4/4 Reconciling",
            ),
            ("A e3", "e4 asg 0-2,6", "8(A: e4/p3 STABLE 0-2@2 6@4 | -)", "4/4 Stable"),
        ],
        H1 + H2[:11],
    ),
    "H-8 an expression": History(
        [
            ("A e0 R names= regex=foo.* own=[]", "e1 asg -", "5(A); 8(A: e1/p0 STABLE - | -)", "1/1 Stable"),
            ("resolve", "", "16(foo.*); 3(2)", "2/1 Assigning"),
            ("+0 A e1", "e2 asg 0-5 T2:0-1", f"7(A: 0-5 T2:0-1); 6(2); {A_HAS_ALL}", "2/2 Stable"),
            ("B e0 R names= regex=foo.* own=[]", "e3 asg -", B_JOINS_BY_REGEX, "3/3 Reconciling"),
            ("C e0 R names= regex=foo( own=[]", "128", "none", ""),
            ("foo2 is made", "", "none", "3/3 Reconciling"),
            ("A e2", "e2 asg 0-3", "8(A: e2/p2 UNREVOKED 0-3@2 | 4-5@2 T2:0-1@2)", ""),
            ("resolve", "", "none", ""),
            ("+9000 A e2", "e2", "none", "3/3 Reconciling"),
            ("resolve", "", "16(foo.*); 3(4)", "4/3 Assigning"),
        ],
        topics=(FOO, FOOBAR),
    ),
    "H-8 step 8: the expression is given up": History(
        [
            (
                "A e2 regex=",
                "e2 asg -",
                f"5(A); 3(4); 7(A: -); 7(B: 0-5 T2:0-1); 6(4); {A_GIVES_ALL}",
                "4/4 Reconciling",
            ),
        ],
        BY_REGEX,
        (FOO, FOOBAR),
    ),
    "H-8 step 9: its last users leave": History(
        [
            ("B e-1", "e-1", "x8(B); x7(B); x5(B); 3(4)", "4/3 Assigning"),
            ("A e-1", "e-1", "x8(A); x7(A); x5(A); x16(foo.*); 3(5); 6(5,0)", "5/5 Empty"),
        ],
        BY_REGEX,
        (FOO, FOOBAR),
    ),
    "H-9 more to revoke after a revocation": History(
        [
            (
                "C e0 join",
                "e4 asg -",
                "5(C); 3(4); 7(A: 0-1); 7(B: 3-4); 7(C: 2,5); 6(4); 8(C: e4/p0 UNRELEASED - | -)",
                "4/4 Reconciling",
            ),
            ("A e2 own=0-2", "e2 asg 0-1", "8(A: e2/p2 UNREVOKED 0-1@2 | 2@2)", ""),
            ("B e3", "e4 asg 3-4", "8(B: e4/p3 STABLE 3-4@4 | -)", ""),
            ("C e4", "e4 asg 5", "8(C: e4/p4 UNRELEASED 5@4 | -)", ""),
            ("A e2 own=0-1", "e4", "8(A: e4/p2 STABLE 0-1@2 | -)", ""),
            ("C e4", "e4 asg 2,5", "8(C: e4/p4 STABLE 2,5@4 | -)", "4/4 Stable"),
        ],
        H1 + H2[:3],
    ),
    "H-13 a member subscribes to less": History(
        [
            ("A e2 names=foo", "e2 asg 0-5", f"5(A); 3(3); 7(A: 0-5); 6(3); {A_IS_TOLD}", "3/3 Reconciling"),
            ("A e2 own=0-5", "e3", "8(A: e3/p2 STABLE 0-5@2 | -)", "3/3 Stable"),
        ],
        NARROW,
        TWO_TOPICS,
    ),
    "H-13 within the interval": History(
        [
            ("+900 A e2 names=foo", "e2 asg 0-5", f"5(A); 3(3); {A_IS_TOLD}", "3/2 Assigning"),
            ("A e2", "e2", "7(A: 0-5); 6(3)", "3/3 Reconciling"),
            ("A e2 own=0-5", "e3", "8(A: e3/p2 STABLE 0-5@2 | -)", "3/3 Stable"),
        ],
        NARROW,
        TWO_TOPICS,
    ),
    "H-14 a join of a member": History(
        [
            ("A e0 join", "e3 asg 0-2", "8(A: e3/p2 STABLE 0-2@2 | -)", "3/3 Reconciling"),
            ("B e3", "e3 asg 3-5", "8(B: e3/p3 STABLE 3-5@3 | -)", "3/3 Stable"),
            ("A e0 join", "e3 asg 0-2", "none", ""),
            ("A e3 own=0-2", "e3", "none", ""),
            (
                "A e0 R names=foo,bar own=[]",
                "e4 asg 0-2 T3:0",
                "5(A); 3(4); 7(A: 0-2 T3:0); 6(4); 8(A: e4/p3 STABLE 0-2@2 T3:0@4 | -)",
                "4/4 Reconciling",
            ),
            ("A e-1", "e-1", "x8(A); x7(A); x5(A); 3(5)", "5/4 Assigning"),
            ("A e0 join", "e6 asg 0-2", "", "6/6 Reconciling"),
        ],
        H1 + H2[:2],
        TWO_TOPICS,
    ),
    "H-15 answers are lost": History(
        [
            H1[0],
            ("A e0 join", "e2 asg 0-5", "none", ""),
            ("A e2 own=0-5", "e2", "none", ""),
            H2[0],
            H2[1],
            ("A e2 R names=foo own=0-5", "e2 asg 0-2", "none", ""),
            ("A e2 own=0-2", "e3", "8(A: e3/p2 STABLE 0-2@2 | -)", ""),
            ("A e2 R names=foo own=0-2", "e3 asg 0-2", "none", ""),
            ("B e3", "e3 asg 3-5", "8(B: e3/p3 STABLE 3-5@3 | -)", ""),
            ("B e3 R names=foo own=[]", "e3 asg 3-5", "none", "3/3 Stable"),
            ("C e0 join", "e4 asg -", "", "4/4 Reconciling"),
            ("A e3", "e3 asg 0-1", "8(A: e3/p3 UNREVOKED 0-1@2 | 2@2)", ""),
            ("A e3 own=0-1", "e4", "8(A: e4/p3 STABLE 0-1@2 | -)", ""),
            ("A e2 R names=foo own=0-2", "110", "none", ""),
            ("A e0 join", "e4 asg 0-1", "none", ""),
            ("B e-1", "e-1", "x8(B); x7(B); x5(B); 3(5)", "5/4 Assigning"),
            ("B e-1", "25", "none", ""),
        ]
    ),
    "H-16 two join within a second": History(
        [
            H1[0],
            ("+200 B e0 join", "e2 asg -", "5(B); 3(3); 8(B: e2/p0 STABLE - | -)", "3/2 Assigning"),
            ("+100 B e2 own=[]", "e2", "none", ""),
            ("+200 C e0 join", "e2 asg -", "5(C); 3(4); 8(C: e2/p0 STABLE - | -)", "4/2 Assigning"),
            ("+500", "", "none", "4/2 Assigning"),
            (
                "+4000 A e2",
                "e2 asg 0-1",
                "7(A: 0-1); 7(B: 2-3); 7(C: 4-5); 6(4); 8(A: e2/p2 UNREVOKED 0-1@2 | 2-5@2)",
                "4/4 Reconciling",
            ),
            ("+0 A e2 own=0-1", "e4", "8(A: e4/p2 STABLE 0-1@2 | -)", ""),
            ("+300 B e2", "e4 asg 2-3", "8(B: e4/p2 STABLE 2-3@4 | -)", ""),
            ("+200 C e2", "e4 asg 4-5", "8(C: e4/p2 STABLE 4-5@4 | -)", "4/4 Stable"),
        ]
    ),
    "H-16 step 8a": History(
        [("+0 B e2", "e4", "8(B: e4/p2 UNRELEASED - | -)", "")],
        [
            H1[0],
            ("+200 B e0 join", "", "", ""),
            ("+200 C e0 join", "", "", ""),
            ("+4000 A e2", "e2 asg 0-1", "", "4/4 Reconciling"),
        ],
    ),
}

_AFTER = re.compile(r"\+(\d+) ?(.*)")


def expect_row(driver: ConsumerDriver, row: Row) -> None:
    """Carry out a row, and compare."""
    does, answer, records, stands = row
    delayed = _AFTER.fullmatch(does)
    at = len(driver.log)
    driver.advance(int(delayed[1]) if delayed else 1_100)
    does = delayed[2] if delayed else does
    told = _do(driver, does) if does else ""
    assert not answer or told == answer, row
    assert not records or "; ".join(driver.written(at)) == records.replace("none", ""), row
    assert not stands or driver.stands() == stands, row


def _do(driver: ConsumerDriver, does: str) -> str:
    words = does.split()
    if words[0] == "commit":
        return " ".join(map(str, driver.commits(words[1], int(words[2][1:]), " ".join(words[3:]))))
    if does == "resolve":
        driver.resolve()
        return ""
    if does == "foo2 is made":
        driver.set_topics(*driver.topics, FOO2)
        return ""
    if words[1] == "has":
        driver.set_topics(Topic(T1, "foo", int(words[2])), *driver.topics[1:])
        return ""
    return driver.told(does)


@pytest.mark.conformance(
    "K-B-16",
    "K-B-21",
    "K-B-23",
    "K-C-29",
    "K-C-30",
    "K-C-31",
    "K-C-32",
    "K-C-33",
    "K-C-37",
    "K-C-38",
    "K-C-39",
    "K-C-40",
    "K-C-41",
)
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_goes_as_kafkas(name: str) -> None:
    history = HISTORIES[name]
    driver = ConsumerDriver(*history.topics)
    for row in (*history.before, *history.rows):
        expect_row(driver, row)


def ends_by_a_timer(row: Row) -> bool:
    """True if the row removes a member that neither leaves nor gives its place to another."""
    return "x8" in row[2] and re.search(r" e(-1|0)\b", row[0]) is None


@pytest.mark.conformance("K-B-62")
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_goes_on_the_same_after_a_failover_before_each_row(name: str) -> None:
    history = HISTORIES[name]
    driver = ConsumerDriver(*history.topics)
    for row in history.before:
        expect_row(driver, row)
    compared = 0
    for row in history.rows:
        if ends_by_a_timer(row):
            break  # timers begin anew
        if row[0] != "resolve":  # a resolution under way is lost
            driver.fail_over()
        expect_row(driver, row)
        compared += 1
    assert compared, "the first row is no timer's"
