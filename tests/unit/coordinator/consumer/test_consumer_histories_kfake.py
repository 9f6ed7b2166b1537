"""The cases of the protocol that the tests of franz-go's kfake, an independent coordinator, have, as histories of ours.

Rows are those of test_consumer_histories.py.
"""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from tests.support.consumer_groups import GROUP, T1, ConsumerDriver
from tests.unit.coordinator.consumer.test_consumer_histories import (
    H1,
    H2,
    STATIC,
    History,
    expect_row,
)

RETENTION_MS = 7 * 24 * 3_600_000
NINE = (Topic(T1, "foo", 9),)
HISTORIES = {
    "of two at one epoch, the one that goes frees what it had alone": History(
        [
            ("B e-1", "e-1", "x8(B); x7(B); x5(B); 3(4)", "4/3 Assigning"),
            ("C e0 join", "e5 asg 3-5", "", "5/5 Reconciling"),
            ("A e3", "e5", "8(A: e5/p3 STABLE 0-2@2 | -)", "5/5 Stable"),
        ],
        H1 + H2,
    ),
    "a third of three has to wait for the others": History(
        [
            ("A e0 join", "e2 asg 0-8", "", "2/2 Stable"),
            ("B e0 join", "e3 asg -", "", "3/3 Reconciling"),
            ("A e2", "e2 asg 0-4", "", ""),
            ("A e2 own=0-4", "e3", "", ""),
            ("B e3", "e3 asg 5-8", "", "3/3 Stable"),
            ("C e0 join", "e4 asg -", "", "4/4 Reconciling"),
            ("C e4", "e4", "", ""),
            ("A e3", "e3 asg 0-2", "", ""),
            ("C e4", "e4", "none", "4/4 Reconciling"),
            ("A e3 own=0-2", "e4", "", ""),
            ("C e4", "e4 asg 3-4", "8(C: e4/p4 UNRELEASED 3-4@4 | -)", "4/4 Reconciling"),
            ("B e3", "e3 asg 5-7", "", ""),
            ("B e3 own=5-7", "e4", "", ""),
            ("C e4", "e4 asg 3-4,8", "", "4/4 Stable"),
        ],
        topics=NINE,
    ),
    "one whose epoch is refused joins again and has what it had": History(
        [
            ("A e1", "110", "none", ""),
            ("A e0 join", "e2 asg 0-5", "none", "2/2 Stable"),
            ("A e2 own=0-5", "e2", "none", ""),
        ],
        H1,
    ),
    "`range` gives each a run of partitions": History(
        [
            ("A e0 join by=range", "e2 asg 0-5", "", "2/2 Stable"),
            ("B e0 join by=range", "e3 asg -", "", "3/3 Reconciling"),
            ("A e2", "e2 asg 0-2", "", ""),
            ("A e2 own=0-2", "e3", "", ""),
            ("B e3", "e3 asg 3-5", "", "3/3 Stable"),
            ("C e0 join by=nonexistent", "112", "none", "3/3 Stable"),
        ]
    ),
    "a static member that is back at the last moment is not taken by the end of its former session": History(
        [
            ("+43000 A1 e3 as=i-a", "e3", "none", ""),
            ("+0 B e3", "e3", "none", ""),
            ("+44000 A1 e-2 as=i-a", "e-2", "", "3/3 Reconciling"),
            ("+0 B e3", "e3", "none", ""),
            ("+900 A1 e0 join as=i-a", "e3 asg 0-2", "", "3/3 Stable"),
            ("+30000 A1 e3 as=i-a", "e3", "none", "3/3 Stable"),
        ],
        STATIC,
    ),
    "one that leaves and is back is not taken by the end of its former time to give back": History(
        [
            *[("+40000 A e2", "e2", "none", "3/3 Reconciling"), ("+0 B e3", "e3", "none", "")] * 7,
            ("+10000 A e-1", "e-1", "x8(A); x7(A); x5(A); 3(4)", "4/3 Assigning"),
            ("A e0 join", "e5 asg 0-2", "", "5/5 Reconciling"),
            ("B e3", "e5 asg 3-5", "", "5/5 Stable"),
            ("+20000 A e5 own=0-2", "e5", "none", "5/5 Stable"),
        ],
        [*H1, *H2[:2], ("B e3 own=[]", "e3", "", "")],
    ),
    "the successor of a static member that died waits for the end of its session": History(
        [
            ("+40000 B e3", "e3", "none", ""),
            ("+0 A2 e0 join as=i-a", "111", "none", "3/3 Stable"),
            (
                "+6000 B e3",
                "e4 asg 0-5",
                "x8(A1); x7(A1); x5(A1); 3(4); 7(B: 0-5); 6(4); 8(B: e4/p3 STABLE 3-5@3 0-2@4 | -)",
                "",
            ),
            ("A2 e0 join as=i-a", "e5 asg -", "", "5/5 Reconciling"),
            ("A1 e3 as=i-a", "82", "none", ""),
        ],
        [*STATIC, ("A1 e3", "e3", "none", "")],
    ),
}


@pytest.mark.conformance("K-B-12", "K-B-37", "K-B-42", "K-B-50", "K-B-53", "K-B-54", "K-B-55")
@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_goes_as_kfakes(name: str) -> None:
    history = HISTORIES[name]
    driver = ConsumerDriver(*history.topics)
    for row in (*history.before, *history.rows):
        expect_row(driver, row)


@pytest.mark.conformance("K-B-44", "K-D-23", "K-D-25")
def test_a_group_whose_only_member_is_away_outlives_its_offsets() -> None:
    driver = ConsumerDriver(settings=ConsumerSettings(session_timeout_ms=3 * RETENTION_MS))
    for row in (("A1 e0 join as=i-a", "e2 asg 0-5", "", ""), ("A1 e-2 as=i-a", "e-2", "", "")):
        expect_row(driver, row)
    assert driver.commits("A1", -2, "0 T3:0") == [0, 0]
    driver.advance(2 * RETENTION_MS)
    assert driver.offset(GROUP, "bar", 0) == -1, "it has expired"
    expect_row(driver, ("A2 e0 join as=i-a", "e2 asg 0-5", "", "2/2 Stable"))
