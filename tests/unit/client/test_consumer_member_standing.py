"""The standing of a member of a consumer group: the transitions between its states, and its epoch."""

from __future__ import annotations

import pytest

from actors.client.group.consumer_protocol.standing import (
    TABLE,
    Happening,
    IllegalTransitionError,
    MemberState,
    Standing,
)
from actors.client.group.generation import Generation

S, H = MemberState, Happening
_ = None

# Columns: UNSUBSCRIBED, JOINING, RECONCILING, ACKNOWLEDGING, STABLE, PREPARE_LEAVING, LEAVING, FENCED, STALE, FATAL.
CELLS: dict[Happening, list[MemberState | None]] = {
    H.JOIN: [S.JOINING, _, _, _, _, _, _, _, S.JOINING, _],
    H.ASSIGNED: [_, S.RECONCILING, S.RECONCILING, S.ACKNOWLEDGING, S.RECONCILING, _, _, _, _, _],
    H.AS_BEFORE: [_, S.STABLE, S.STABLE, S.ACKNOWLEDGING, S.STABLE, _, _, _, _, _],
    H.TAKEN_OVER: [_, _, S.ACKNOWLEDGING, _, _, _, _, _, _, _],
    H.ACKNOWLEDGED: [_, _, _, S.STABLE, _, _, _, _, _, _],
    H.BEHIND: [_, _, _, S.RECONCILING, _, _, _, _, _, _],
    H.PREPARE: [_, *[S.PREPARE_LEAVING] * 4, _, _, _, _, _],
    H.LEAVE: [_, _, _, _, _, S.LEAVING, _, _, _, _],
    H.LEFT: [_, _, _, _, _, _, S.UNSUBSCRIBED, S.UNSUBSCRIBED, _, _],
    H.POLL_EXPIRED: [_, _, _, _, _, _, S.STALE, _, _, _],
    H.FENCED: [_, *[S.FENCED] * 4, S.UNSUBSCRIBED, _, _, _, _],
    H.RELEASED: [_, _, _, _, _, _, _, S.JOINING, _, _],
    H.FAILED: [*[S.FATAL] * 6, _, _, _, _],
}
LEGAL = {
    S.JOINING: {S.UNSUBSCRIBED, S.FENCED, S.STALE},
    S.RECONCILING: {S.JOINING, S.STABLE, S.ACKNOWLEDGING, S.RECONCILING},
    S.ACKNOWLEDGING: {S.RECONCILING},
    S.STABLE: {S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.PREPARE_LEAVING: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.UNSUBSCRIBED},
    S.LEAVING: {S.PREPARE_LEAVING},
    S.UNSUBSCRIBED: {S.PREPARE_LEAVING, S.LEAVING, S.FENCED},
    S.FENCED: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.PREPARE_LEAVING, S.LEAVING},
    S.STALE: {S.LEAVING},
    S.FATAL: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.PREPARE_LEAVING, S.LEAVING, S.UNSUBSCRIBED},
}
"""Kafka's transitions: to, from."""


def in_state(state: MemberState, epoch: int = 7) -> Standing:
    standing = Standing("me")
    standing.state = state
    standing.at_epoch(epoch)
    return standing


@pytest.mark.conformance("K-F-01")
@pytest.mark.parametrize("happening", H)
@pytest.mark.parametrize("before", S)
def test_each_cell_of_the_table(happening: Happening, before: MemberState) -> None:
    expected = dict(zip(S, CELLS[happening], strict=True))[before]
    standing = in_state(before)
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"in {before.value}"):
            standing.happened(happening)
        assert (standing.state, standing.epoch) == (before, 7)
    else:
        standing.happened(happening)
        assert standing.state is expected


@pytest.mark.conformance("K-F-01")
def test_no_transition_is_made_that_kafkas_client_does_not_have() -> None:
    """A step to the same state is no transition."""
    made = {(to, before) for row in TABLE.values() for before, to in row.items() if to is not before}
    assert made <= {(to, before) for to, several in LEGAL.items() for before in several}
    assert {to for to, _ in made} == set(S), "each state is reached"


@pytest.mark.conformance("K-F-04")
@pytest.mark.parametrize(
    ("before", "happening"),
    [
        (S.STABLE, H.FENCED),
        (S.FENCED, H.RELEASED),
        (S.STABLE, H.FAILED),
        (S.LEAVING, H.LEFT),
        (S.LEAVING, H.POLL_EXPIRED),
        (S.STALE, H.JOIN),
    ],
)
def test_an_end_takes_the_epoch_and_leaves_the_id(before: MemberState, happening: Happening) -> None:
    standing = in_state(before)
    standing.happened(happening)
    assert (standing.epoch, standing.generation, standing.member_id) == (0, Generation(), "me")
    assert not standing.since_joined(Generation(7, "me"))


def test_a_place_counts_from_the_join_of_the_present_membership_on() -> None:
    standing = in_state(S.STABLE)
    standing.at_epoch(9)
    assert standing.generation == Generation(9, "me")
    assert [n for n in range(-1, 12) if standing.since_joined(Generation(n, "me"))] == [7, 8, 9]


@pytest.mark.conformance("K-F-05")
def test_who_beats_is_in_the_group_or_about_to_leave_it() -> None:
    joined = [S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE]
    assert [s for s in S if in_state(s).in_group] == joined
    assert [s for s in S if in_state(s).beating] == [*joined, S.PREPARE_LEAVING]
    assert [s for s in S if in_state(s).holding] == [*joined[1:], S.PREPARE_LEAVING]
    assert not in_state(S.STABLE, epoch=0).holding
