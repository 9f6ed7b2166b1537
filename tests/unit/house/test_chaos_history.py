"""The judge of chaos runs finds what it is there to find."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.history import judge


def event(at: float, name: str, /, **more: Any) -> dict[str, Any]:
    return {"at": at, "event": name, **more}


def holds(at: float, client: str, epoch: int, previous: int) -> dict[str, Any]:
    """A record of a member's epochs, which the reader of the log sees 0.1 s after it was written."""
    member = {"member": "x", "client": client, "written": at - 0.1, "epoch": epoch, "previous": previous}
    return event(at, "holds", group="c", partitions=[0], twice={}, **member)


FINE = [
    event(0.0, "acked", id="a", partition=0, offset=0),
    event(0.1, "handled", group="g", partition=0, offsets=[0]),
    event(0.2, "committing", group="r", offset=1),
    event(0.3, "committed", group="r", offset=1),
    event(0.4, "reading", group="r", number=1),
    event(0.5, "read", group="r", number=1, offset=1),
    event(0.6, "owners", group="g", generation=1, members={"m": [0], "n": [1]}),
    event(0.7, "protocol", group="c", type="consumer"),
    event(0.7, "took", group="c", client="m", partitions=[0]),
    holds(0.7, "m", 2, 0),
    event(0.7, "handled", group="c", client="m", partition=0, offsets=[0]),
    event(0.7, "kept", group="c", client="m", offsets={"0": 1}),
    event(0.8, "gave", group="c", client="m", partitions=[0]),
    event(0.8, "took", group="c", client="n", partitions=[0]),
    event(0.9, "left", group="c", client="n"),
    event(0.9, "took", group="c", client="m", partitions=[0]),
    event(0.9, "protocol", group="c", type="classic"),
    event(1.0, "fault", kind="kill", pid=1),
    event(1.9, "committing", group="r", offset=2),
    event(2.0, "committed", group="r", offset=2),
    event(9.0, "stored", id="a", partition=0, offset=0),
]


def test_a_good_run_has_no_violation() -> None:
    outcome = judge(FINE)
    assert outcome.violations == []
    assert outcome.faults == {"kill": 1}
    assert (outcome.kept, outcome.changed_over) == (1, 1)
    assert outcome.back_after_s == [("kill", 1.0)]
    assert outcome.longest_gap_s == pytest.approx(1.7)


DOWNGRADE = [
    holds(2.0, "own-1", 4, 3),
    event(3.0, "protocol", group="c", type="consumer"),
    event(4.0, "protocol", group="c", type="classic"),
    event(4.0, "owners", group="c", generation=5, members={"x": [0]}),
]
LOST = event(5.0, "lost", client="own-1", group="c", partitions=[0])


def test_who_was_behind_when_its_group_became_a_classic_one_was_not_expelled() -> None:
    outcome = judge([*FINE, *DOWNGRADE, LOST])
    assert (outcome.violations, outcome.left_behind, outcome.false_expulsions) == ([], 1, 0)
    outcome = judge([*FINE, LOST, *DOWNGRADE])  # it heard of it before the reader of the log did
    assert (outcome.violations, outcome.left_behind) == ([], 1)


@pytest.mark.parametrize(
    "events",
    [
        [*DOWNGRADE, LOST, LOST],
        [*DOWNGRADE, LOST | {"at": 40.0}],
        [*DOWNGRADE, LOST | {"group": "g"}],
        [*DOWNGRADE, LOST | {"client": "own"}],
        [*DOWNGRADE, LOST | {"client": "own-11"}],
        [*DOWNGRADE[1:], LOST],
        [*DOWNGRADE[:2], DOWNGRADE[3], LOST],
        [DOWNGRADE[0] | {"epoch": 5}, *DOWNGRADE[1:], LOST],
        [*DOWNGRADE[:3], DOWNGRADE[3] | {"generation": 4}, LOST],
    ],
)
def test_a_downgrade_excuses_no_other_loss(events: list[dict[str, Any]]) -> None:
    assert "lost its membership" in " ".join(judge([*FINE, *events]).violations)


FENCED = [
    holds(2.0, "own-1", 3, 2),
    event(2.1, "heard", group="c", client="own-1", member="x", epoch=3),
    holds(2.6, "own-1", 4, 3),
    holds(2.7, "own-1", 5, 4),
]


def test_a_member_that_lost_the_answers_of_two_steps_was_fenced_by_the_rules() -> None:
    outcome = judge([*FINE, *FENCED, LOST])
    assert (outcome.violations, outcome.fallen_behind, outcome.false_expulsions) == ([], 1, 0)
    outcome = judge([*FINE, *FENCED[:2], LOST, *FENCED[2:]])  # it heard of it before the reader of the log did
    assert (outcome.violations, outcome.fallen_behind) == ([], 1)
    at_its_epoch = FENCED[3] | {"epoch": 4, "previous": 4}  # a step that leaves a member at its epoch
    assert judge([*FINE, *FENCED[:3], at_its_epoch, LOST]).violations == []


@pytest.mark.parametrize(
    "events",
    [
        [*FENCED, LOST, LOST],
        [*FENCED, LOST | {"group": "g"}],
        [*FENCED, LOST | {"client": "own-11"}],
        [*FENCED[:3], LOST],
        [*FENCED[:3], FENCED[3] | {"epoch": 6, "previous": 3}, LOST],
        [*FENCED[:3], FENCED[3] | {"written": 5.1}, LOST],
        [*FENCED[:3], FENCED[3] | {"member": "y"}, LOST],
        [FENCED[0], *FENCED[2:], LOST],
        [*FENCED, FENCED[1] | {"epoch": 4}, LOST],
        [*FENCED, event(2.8, "ended", group="c", member="x", written=2.7), LOST],
        [*FENCED, event(2.8, "left", group="c", client="own-1"), LOST],
    ],
)
def test_nobody_else_is_fenced(events: list[dict[str, Any]]) -> None:
    assert "lost its membership" in " ".join(judge([*FINE, *events]).violations)


TIMED_OUT = [
    event(60.0, "timed_out", group="c", client="own-1", silence_s=45.0),
    event(60.1, "lost", group="c", client="own-1", partitions=[0]),
]
COMMIT = [event(10, "committing", group="r", offset=9), event(10, "committed", group="r", offset=9)]


def test_a_member_gives_up_when_nobody_is_answered_for_its_session() -> None:
    back = [each | {"at": 50.0} for each in COMMIT]  # a cluster that has come back has its time to load
    outcome = judge([*FINE, *COMMIT, *back, *TIMED_OUT])
    assert (outcome.violations, outcome.timed_out, outcome.false_expulsions) == ([], 1, 0)


@pytest.mark.parametrize(
    "events",
    [
        [*(each | {"at": at} for at in (25.0, 40.0, 55.0) for each in COMMIT), *TIMED_OUT],
        [*COMMIT, *TIMED_OUT, TIMED_OUT[1]],
        [*COMMIT, TIMED_OUT[1]],
        [*COMMIT, TIMED_OUT[0], TIMED_OUT[1] | {"group": "g"}],
        [*COMMIT, TIMED_OUT[0], TIMED_OUT[1] | {"client": "own-11"}],
    ],
)
def test_nobody_else_may_give_up(events: list[dict[str, Any]]) -> None:
    assert "lost its membership" in " ".join(judge([*FINE, *events]).violations)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ([e for e in FINE if e["event"] != "stored"], "acknowledged at"),
        ([e | {"id": "b"} if e["event"] == "stored" else e for e in FINE], "acknowledged at"),
        (
            [e | {"offsets": []} if e["event"] == "handled" and e["group"] == "g" else e for e in FINE],
            "never handled 1",
        ),
        ([e for e in FINE if e["event"] != "gave"], "n took partition 0 of c, which m had not given up"),
        ([e for e in FINE if e["event"] != "left"], "m took partition 0 of c, which n had not given up"),
        ([e | {"twice": {"n": [0]}} if e["event"] == "holds" else e for e in FINE], "has two members hold"),
        ([*FINE, event(4, "handled", group="c", client="m", partition=0, offsets=[0])], "c had committed 1"),
        ([e | {"offset": -1} if e["event"] == "read" else e for e in FINE], "had committed 1"),
        ([e | {"offset": 5} if e["event"] == "read" else e for e in FINE], "nobody committed"),
        ([e | {"members": {"m": [0], "n": [0]}} if e["event"] == "owners" else e for e in FINE], "two members"),
        ([*FINE, event(3, "owners", group="g", generation=1, members={"m": [0, 1]})], "used again"),
        ([*FINE, event(3, "lost", client="m", partitions=[0])], "lost its membership"),
    ],
)
def test_each_kind_of_loss_is_found(broken: list[dict[str, Any]], what: str) -> None:
    (violation,) = judge(broken).violations
    assert what in violation
