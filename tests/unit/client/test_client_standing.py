"""A member's standing: the transitions between its states, and the part of its place in the group that each keeps."""

from __future__ import annotations

import pytest

from actors.client.group.classic.standing import TRANSITIONS, IllegalTransitionError, MemberState, Standing
from actors.client.group.generation import Generation

S = MemberState
PLACE = Generation(7, "me")


def in_state(state: MemberState) -> Standing:
    standing = Standing()
    ways = {
        S.UNJOINED: 0,
        S.PREPARING_REBALANCE: 1,
        S.COMPLETING_REBALANCE: 2,
        S.STABLE: 3,
    }
    for step in (standing.join_sent, lambda: standing.joined(PLACE, "range"), standing.synced)[: ways[state]]:
        step()
    assert standing.state is state
    return standing


def happen(standing: Standing, to: MemberState) -> None:
    match to:
        case S.UNJOINED:
            standing.out(keep_member_id=True)
        case S.PREPARING_REBALANCE:
            standing.join_sent()
        case S.COMPLETING_REBALANCE:
            standing.joined(Generation(8, "me"), "range")
        case S.STABLE:
            standing.synced()


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("to", S)
def test_only_a_joined_member_may_sync_and_only_one_that_asked_may_have_joined(before: S, to: S) -> None:
    forward = [(S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE), (S.COMPLETING_REBALANCE, S.STABLE)]
    legal = to in (S.UNJOINED, S.PREPARING_REBALANCE) or (before, to) in forward
    assert (to in TRANSITIONS[before]) == legal
    standing = in_state(before)
    generation = standing.generation
    if legal:
        happen(standing, to)
        assert standing.state is to
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {before.value} to {to.value}"):
            happen(standing, to)
        assert (standing.state, standing.generation) == (before, generation)


@pytest.mark.parametrize(("keep", "left"), [(True, Generation(member_id="me")), (False, Generation())])
def test_who_is_out_has_no_generation_and_at_most_its_id(keep: bool, left: Generation) -> None:
    standing = in_state(S.STABLE)
    standing.out(keep_member_id=keep)
    assert standing.generation == left
    assert standing.assignor is None
    assert standing.lost
    assert not standing.counted


def test_an_id_alone_is_no_place_in_the_group() -> None:
    standing = in_state(S.PREPARING_REBALANCE)
    standing.id_given("me")
    assert standing.state is S.PREPARING_REBALANCE
    assert standing.generation == Generation(member_id="me")
    assert standing.lost


def test_heartbeats_run_from_the_place_in_a_generation_on() -> None:
    assert [s for s in S if in_state(s).heartbeating] == [S.COMPLETING_REBALANCE, S.STABLE]
    assert [s for s in S if in_state(s).rebalancing] == [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE]
