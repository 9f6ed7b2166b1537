"""Random histories of a member: for any answers at any time, it stays lawful and finds its way back."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.errors import KafkaConnectionError, KafkaError
from actors.client.group.assignors.protocol import Assignment
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.effects import Event, To
from actors.client.group.generation import Generation
from actors.wire.messages import HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse
from tests.support.examples import examples
from tests.support.membership_script import ASIDE, NODE, OTHER, Script, lookup_answer, tps

HEARTBEATING = (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)
FROM_ANY = (MemberState.UNJOINED, MemberState.PREPARING_REBALANCE)
TRANSITIONS = {
    (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE),
    (MemberState.COMPLETING_REBALANCE, MemberState.STABLE),
}
CODES = [0, 0, 0, 14, 15, 16, 22, 25, 27, 30, 79, 82, 99]


def answer_one(script: Script, chance: random.Random, code: int | None = None) -> None:
    pending = script.member.pending()
    if not pending:
        return
    number = chance.choice(sorted(pending))
    kind = pending[number].kind.value
    code = chance.choice(CODES) if code is None else code
    before, join_is_out = script.member.generation, script.member.join is not None
    if code == 99 and chance.random() < 0.5:
        script.member.on_failure(number, KafkaConnectionError(), script.now)
        assert script.member.generation == before, "a lost connection costs no membership"
    else:
        script.member.on_response(number, answer(script, kind, code, chance), script.now)
        if pending[number].generation == before:
            # While a JoinGroup is out, an error of the heartbeat beside it changes nothing: the join's answer tells.
            # Once the join has failed, the error counts as any heartbeat's, but for 22.
            asked = "Heartbeat" if kind == ASIDE and not join_is_out and code != 22 else kind
            assert script.member.generation == left_by(asked, code, before, script.member.generation)
    script.settle()


def left_by(kind: str, code: int, before: Generation, after: Generation) -> Generation:
    """The generation that an answer leaves of its request's. A successful join may leave any."""
    match kind, code:
        case (("SyncGroup" | "Heartbeat"), 22):
            return Generation(member_id=before.member_id)
        case (("JoinGroup" | "SyncGroup" | "Heartbeat"), 25):
            return Generation()
        case "Heartbeat", 82:
            return Generation()
        case "JoinGroup", (0 | 79):
            return after
    return before


def answer(script: Script, kind: str, code: int, chance: random.Random):
    if kind == "FindCoordinator":
        return lookup_answer(chance.choice([NODE, OTHER]), code if code in (0, 15, 30) else 0)
    if kind == "JoinGroup":
        protocol = script.last("JoinGroup").request.protocols[0].name
        script.generation = getattr(script, "generation", 0) + 1
        return JoinGroupResponse(
            error_code=code,
            generation_id=script.generation,
            protocol_name=protocol,
            member_id="me",
            leader="somebody",
        )
    if kind == "SyncGroup":
        owned = tps(*(f"t-{n}" for n in range(4) if chance.random() < 0.5))
        return SyncGroupResponse(error_code=code, assignment=Assignment.of(owned).encode())
    return HeartbeatResponse(error_code=code) if kind in ("Heartbeat", ASIDE) else LeaveGroupResponse(error_code=code)


class Lawful(Standing):
    """A member that makes only the transitions between states that exist."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state":
            assert value in FROM_ANY or (self.state, value) in TRANSITIONS, f"{self.state} to {value}"
        super().__setattr__(name, value)


def assert_lawful(script: Script, heartbeats_before: int, state_before: MemberState) -> None:
    member = script.member
    in_flight = Counter(pending.kind.value for pending in member.pending().values())
    assert in_flight["FindCoordinator"] <= 1
    assert in_flight["Heartbeat"] <= 1
    assert in_flight[ASIDE] <= 1
    assert in_flight["JoinGroup"] + in_flight["SyncGroup"] <= 1
    if script.count("Heartbeat") > heartbeats_before:
        aside = script.last("Heartbeat").to is To.ASIDE
        assert (state_before is MemberState.PREPARING_REBALANCE) if aside else (state_before in HEARTBEATING)
    if member.generation.id < 0:
        assert not member.may_deliver(script.now)
    if member.state is MemberState.STABLE:
        assert member.generation.id >= 0
    if member.state is MemberState.PREPARING_REBALANCE and state_before is not member.state:
        assert in_flight["JoinGroup"] == 1
    if member.state is MemberState.UNJOINED:
        assert member.generation.id < 0
    if member.state is not MemberState.STABLE and member.join is None:
        assert member.rejoin_needed


def step(script: Script, chance: random.Random) -> None:
    before, state = script.count("Heartbeat"), script.member.state
    what = chance.random()
    if what < 0.4:
        answer_one(script, chance)
    elif what < 0.7:
        with contextlib.suppress(KafkaError):
            script.poll(chance.choice([0, 10, 500, 3_000]))
    elif what < 0.95:
        script.tick(chance.choice([0, 50, 1_000, 3_000, 20_000]))
    else:
        script.member.request_rejoin("chance")
    assert_lawful(script, before, state)


def assert_listener_calls_fit_together(script: Script) -> None:
    """Assigned partitions were not owned, and taken ones were: the calls add up to the partitions of the member."""
    held: set = set()
    for event, partitions in script.calls:
        if event is Event.ASSIGNED:
            assert not held & partitions
            held |= partitions
        else:
            assert partitions <= held
            held -= partitions


@pytest.mark.conformance("E-04")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@examples(150)
@given(seed=st.integers(0, 2**32), steps=st.integers(5, 120))
def test_any_history_is_lawful_and_ends_stable_once_all_is_well(strategy, seed, steps):
    chance = random.Random(seed)
    script = Script(strategy, max_poll_interval_ms=60_000)
    script.member.standing.__class__ = Lawful
    script.member.subscribe(["t"])
    script.metadata(t=4)
    for _ in range(steps):
        step(script, chance)
    for _ in range(60):
        with contextlib.suppress(KafkaError):
            script.poll(200)
        script.tick()
        answer_one(script, chance, code=0)
    for _ in range(30):
        answer_one(script, chance, code=0)
        script.poll(200)
        if script.member.state is MemberState.STABLE and script.member.settled:
            break
    assert script.member.state is MemberState.STABLE
    assert_listener_calls_fit_together(script)
