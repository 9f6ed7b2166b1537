"""A round of joining that goes wrong or finds the world changed: answers of another kind, late errors, new topics."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.errors import InconsistentGroupProtocolError
from actors.client.group.assignors import BUILT_IN
from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.group.classic.standing import MemberState
from actors.client.group.effects import WantMetadata
from actors.client.net.metadata import MetadataView
from actors.wire.messages import JoinGroupResponse
from tests.support.membership_script import Script, joining, syncing, tps

S = MemberState
Member = JoinGroupResponse.JoinGroupResponseMember


# --- answers to a SyncGroup -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [("connect", "range"), ("connect", None), ("consumer", "sticky"), (None, "sticky")])
def test_an_assignment_of_another_type_or_protocol_is_refused_and_not_applied(answer):
    script = syncing()
    kind, name = answer
    script.synced("t-0", protocol_type=kind, protocol_name=name)
    assert script.member.state is not S.STABLE
    with pytest.raises(InconsistentGroupProtocolError, match="connect" if kind == "connect" else "sticky") as raised:
        script.poll()
    assert raised.value.code == 23
    assert script.member.owned == frozenset()
    script.poll(1_000)
    assert script.count("JoinGroup") == 2, "it may try again"


@pytest.mark.parametrize("answer", [("consumer", "range"), ("", ""), (None, None)])
def test_an_assignment_of_our_type_or_of_a_version_without_one_is_taken(answer):
    script = syncing()
    kind, name = answer
    script.synced("t-0", protocol_type=kind, protocol_name=name)
    script.poll()
    assert script.member.owned == tps("t-0")


@pytest.mark.parametrize(("heartbeat", "member_id"), [(22, "me"), (25, "")])
@pytest.mark.parametrize("code", [22, 25, 27, 14, 15, 16])
def test_a_sync_error_after_the_generation_changed_resets_nothing_more(heartbeat, member_id, code):
    """The heartbeat's answer has reset the generation of the sync, whose own answer is about the past."""
    script = syncing()
    script.heartbeat(heartbeat)
    assert script.member.generation.member_id == member_id
    script.sync_error(code)
    script.poll()
    if script.unanswered("FindCoordinator"):
        script.found()
    script.poll(1_000)
    assert script.count("JoinGroup") == 2
    request = script.last("JoinGroup").request
    assert request.member_id == member_id
    assert Subscription.decode(request.protocols[0].metadata).generation == -1


@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_a_sync_error_of_the_same_generation_resets_it(code, member_id):
    script = syncing()
    script.sync_error(code)
    assert script.member.state is S.UNJOINED
    script.poll()
    assert script.last("JoinGroup").request.member_id == member_id
    assert script.count("JoinGroup") == 2


# --- a leader's metadata ----------------------------------------------------------------------------------------------


class Noting(BUILT_IN["range"]):
    """Notes the partition counts it was asked to divide."""

    def __init__(self) -> None:
        self.divided: list[dict[str, int]] = []

    def assign(self, cluster: Any, members: Any) -> Any:
        self.divided.append(dict(cluster.partitions))
        return super().assign(cluster, members)


def lead(script: Script, **others: tuple[str, ...]) -> None:
    """The JoinGroup is answered: we lead a group of ourselves and others with these subscriptions."""
    mine = script.last("JoinGroup").request.protocols[0].metadata
    members = [Member(member_id="me", metadata=mine)]
    members += [Member(member_id=name, metadata=Subscription(topics).encode()) for name, topics in others.items()]
    joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader="me", member_id="me", members=members)
    script.effects.clear()
    script.answer("JoinGroup", joined)


def seen(script: Script, version: int, asked: set[str] | None, **counts: int) -> None:
    view = MetadataView(version, counts, asked=None if asked is None else frozenset(asked))
    script.member.on_metadata(view, script.now)
    script.settle()


def given(script: Script) -> dict[str, frozenset[Any]]:
    sent = script.last("SyncGroup").request.assignments
    return {each.member_id: frozenset(Assignment.decode(each.assignment).partitions) for each in sent}


@pytest.mark.parametrize("before", [{}, {"u": 1}], ids=["not there yet", "smaller"])
@pytest.mark.parametrize("asked", [{"t", "u"}, None], ids=["asked by name", "all asked for"])
def test_a_leader_renews_what_it_knows_of_topics_that_only_others_subscribe_to(before, asked):
    """Its knowledge of these topics may be older than its request for them: it divides nothing by that."""
    assignor = Noting()
    script = joining(assignors=(assignor,))
    seen(script, 2, asked, t=1, **before)
    lead(script, you=("u",))
    assert WantMetadata() in script.effects
    assert (assignor.divided, script.count("SyncGroup")) == ([], 0)
    seen(script, 3, asked, t=1, u=3)
    assert assignor.divided == [{"t": 1, "u": 3}]
    assert given(script) == {"me": tps("t-0"), "you": tps("u-0", "u-1", "u-2")}


def test_a_leader_that_changed_its_subscription_divides_on_metadata_asked_for_after_that():
    assignor = Noting()
    script = joining(assignors=(assignor,))
    seen(script, 2, {"t", "u"}, t=1, u=1)
    lead(script)
    script.synced("t-0")
    script.poll()
    script.member.subscribe(["t", "u"])
    script.settle()
    assert WantMetadata() in script.effects
    script.poll()
    lead(script)
    assert len(assignor.divided) == 1, "the second time on what was known before"
    seen(script, 3, {"t", "u"}, t=1, u=4)
    assert assignor.divided[1:] == [{"t": 1, "u": 4}]
    assert given(script) == {"me": tps("t-0", "u-0", "u-1", "u-2", "u-3")}


def test_a_leader_whose_group_wants_what_it_wants_itself_divides_at_once():
    assignor = Noting()
    script = joining(assignors=(assignor,))
    lead(script, you=("t",))
    assert assignor.divided == [{"t": 4}]
    assert script.count("SyncGroup") == 1
