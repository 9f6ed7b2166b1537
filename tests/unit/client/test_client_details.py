"""Small things of a member and of the assignors that mutation testing found nobody looking at."""

from __future__ import annotations

import struct

import pytest

from actors.client.consumer.figures import figures
from actors.client.consumer.positions import Positions
from actors.client.errors import KafkaConnectionError
from actors.client.group.assignors import ClusterView, CooperativeStickyAssignor, GroupMember, StickyAssignor
from actors.client.group.assignors.packing import pack_partitions
from actors.client.group.assignors.protocol import Subscription
from actors.client.group.assignors.userdata import unpack_sticky
from actors.client.net.changes import Changes
from actors.client.net.metadata import MetadataView
from tests.support.membership_script import Script, following_a_pattern, joining, syncing, tps

OFFSETS = "__consumer_offsets"

# --- membership ---


@pytest.mark.conformance("E-21")
def test_a_leader_whose_metadata_is_only_refreshed_stays():
    script = joining()
    script.joined(leader=True)
    script.synced("t-0", "t-1", "t-2", "t-3")
    script.poll()
    for version in (2, 3):
        script.metadata(t=4, version=version)
        script.poll()
    assert script.count("JoinGroup") == 1
    assert script.member.settled


@pytest.mark.conformance("E-22")
@pytest.mark.parametrize(("exclude", "topics"), [(True, {"t"}), (False, {"t", OFFSETS})])
def test_a_pattern_matches_internal_topics_where_they_are_asked_for(exclude, topics):
    script = Script(exclude_internal_topics=exclude)
    script.member.subscribe_pattern(lambda topic: True)
    view = MetadataView(1, {"t": 1, OFFSETS: 50}, internal=frozenset({OFFSETS}), asked=None)
    script.member.on_metadata(view, script.now)
    assert script.member.topics == topics


@pytest.mark.conformance("E-22")
def test_an_assignment_that_leaves_a_matching_topic_out_does_not_take_it_off_the_subscription():
    script = following_a_pattern()
    script.synced("t2-0")
    script.poll()
    assert script.member.topics == {"t1", "t2"}
    assert script.count("JoinGroup") == 1


@pytest.mark.conformance("E-12")
@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_what_is_lost_between_the_sync_and_the_next_poll_is_not_taken_over(code, member_id):
    script = syncing()
    script.synced("t-0")
    script.heartbeat(code)
    script.poll()
    assert script.member.owned == frozenset()
    assert script.calls == []
    assert script.last("JoinGroup").request.member_id == member_id


def test_a_failure_of_the_background_thread_begins_a_join_that_nobody_will_answer_anew():
    script = joining()
    script.member.on_metadata(MetadataView(2, {"t": 4}, asked=frozenset()), script.now)  # the leader will have to wait
    script.joined(leader=True)
    assert script.count("SyncGroup") == 0
    script.member.fail(KafkaConnectionError("the thread's"), script.now)
    with pytest.raises(KafkaConnectionError, match="the thread's"):
        script.poll()
    script.poll(1_000)
    assert script.count("JoinGroup") == 2


@pytest.mark.parametrize("make", [joining, syncing])
def test_a_failure_of_the_background_thread_leaves_a_join_in_flight_to_its_answer(make):
    script = make()
    script.member.fail(KafkaConnectionError("the thread's"), script.now)
    with pytest.raises(KafkaConnectionError, match="the thread's"):
        script.poll()
    script.poll(1_000)
    assert script.count("JoinGroup") == 1
    if make is joining:
        script.joined()
    script.synced("t-0")
    script.poll()
    assert script.member.owned == tps("t-0")


def test_after_unsubscribing_there_is_nothing_to_wait_for_and_nothing_is_owned():
    script = Script().stable("t-0")
    script.member.unsubscribe(script.now, "unsubscribe")
    script.poll()
    assert not script.member.subscribed
    assert not script.member.wants_all_topics
    assert (script.member.topics, script.member.owned) == (frozenset(), frozenset())
    assert script.member.user_deadline() is None
    assert not script.member.awaits_poll(script.now)
    assert script.member.farewell() == []


def test_a_shell_is_told_when_a_poll_would_help():
    script = joining()
    assert not script.member.awaits_poll(script.now), "the coordinator's turn"
    assert script.member.user_deadline() is None
    script.join_error(14)
    later = script.member.user_deadline()
    assert later == script.now + 100
    assert not script.member.awaits_poll(later - 1)
    assert script.member.awaits_poll(later)
    script.poll(100)
    script.joined()
    script.synced("t-0")
    assert script.member.awaits_poll(script.now), "to take the assignment over"
    script.poll()
    assert not script.member.awaits_poll(script.now)
    assert script.member.user_deadline() is None


def test_a_member_can_be_described():
    script = Script().stable("t-1", "t-0")
    described = figures(script.member, Positions(), Changes(lambda: script.now))
    assert {name: described[name] for name in ("state", "generation", "member_id", "coordinator", "owned")} == {
        "state": "STABLE",
        "generation": 1,
        "member_id": "me",
        "coordinator": script.member.coordinator,
        "owned": sorted(tps("t-0", "t-1")),
    }


def test_heartbeats_and_missed_polls_are_counted():
    script = Script(max_poll_interval_ms=10_000).stable("t-0")
    for _ in range(2):
        script.heartbeat()
    assert script.member.stats.heartbeats == 2
    for missed in (1, 2):
        script.tick(10_000)
        assert script.member.stats.poll_timeouts == missed
        script.stable("t-0", generation=missed + 1)


# --- assignors ---


def cooperative(name: str, *owned: str, user_data: bytes | None) -> GroupMember:
    """A member of the days before subscriptions had a generation (version 1)."""
    return GroupMember(name, frozenset({"t"}), owned=tuple(sorted(tps(*owned))), user_data=user_data)


@pytest.mark.conformance("F-04")
def test_of_two_old_cooperative_claims_the_generation_in_the_user_data_decides():
    cluster = ClusterView({"t": 2})
    for newer, older in (("a", "b"), ("b", "a")):
        members = [
            cooperative(newer, "t-0", user_data=struct.pack(">i", 5)),
            cooperative(older, "t-0", "t-1", user_data=struct.pack(">i", 4)),
        ]
        given = CooperativeStickyAssignor().assign(cluster, members)
        assert {name: set(partitions) for name, partitions in given.items()} == {
            newer: tps("t-0"),
            older: tps("t-1"),
        }


@pytest.mark.conformance("F-04")
@pytest.mark.parametrize("user_data", [None, b"", b"\0\0\1", struct.pack(">i", -1)])
def test_an_old_cooperative_claim_without_a_generation_gives_way(user_data):
    members = [
        cooperative("a", "t-0", user_data=user_data),
        cooperative("b", "t-0", user_data=struct.pack(">i", 0)),
    ]
    given = CooperativeStickyAssignor().assign(ClusterView({"t": 1}), members)
    assert set(given["b"]) == tps("t-0")


@pytest.mark.conformance("F-03")
def test_user_data_of_stickys_first_version_has_no_generation():
    owned = sorted(tps("t-0", "t-1"))
    data = pack_partitions(owned)
    assert unpack_sticky(data) == (owned, -1)
    assert unpack_sticky(data[:-1]) == ([], -1), "what cannot be read claims nothing"
    members = [GroupMember("b", frozenset({"t"}), user_data=data), GroupMember("a", frozenset({"t"}))]
    assert len(StickyAssignor().assign(ClusterView({"t": 2}), members)["b"]) == 1


@pytest.mark.conformance("E-27")
def test_a_subscription_without_a_rack_ends_in_kafkas_null():
    assert Subscription(("t",)).encode(3).endswith(b"\xff\xff\xff\xff" + b"\xff\xff")
    assert Subscription(("t",), rack="r").encode(3).endswith(b"\0\x01r")
