"""A classic group that has members becomes a consumer group when a member of the new protocol joins."""

from __future__ import annotations

from uuid import UUID

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.values import ClassicMetadata
from actors.coordinator.group_types import GROUP_RECORDS, GroupShard, group_shard
from tests.support.classic_members import Classic, MixedDriver, assigned, subscribed
from tests.support.consumer_groups import BAR, FOO, GROUP
from tests.support.tiny_groups import Enter, Tiny

CLASSIC = "classic Stable"
NONSENSE = b"\0\1\0\0"


def one(**fields: object) -> MixedDriver:
    """C1 has all of `foo`, in generation 5."""
    return MixedDriver(Classic("C1", "0-5"), **fields)  # type: ignore[arg-type]


REFUSED = {
    "policy downgrade": lambda: one(policy="downgrade"),
    "policy disabled": lambda: one(policy="disabled"),
    "another protocol type": lambda: one(protocol_type="connect"),
    "more members than a consumer group may have": lambda: MixedDriver(
        Classic("C1", "0-2"), Classic("C2", "3-5"), settings=ConsumerSettings(max_size=1)
    ),
    "a subscription that cannot be read": lambda: MixedDriver(Classic("C1", "0-5", subscription=NONSENSE)),
    "no subscription": lambda: MixedDriver(Classic("C1", "0-5", subscription=b"")),
    "an assignment that cannot be read": lambda: MixedDriver(Classic("C1", NONSENSE)),
    "an assignment with data for the assignor": lambda: MixedDriver(Classic("C1", assigned("0-5")[:-4] + b"\0\0\0\1x")),
    "one partition given to two": lambda: MixedDriver(Classic("C1", "0-3"), Classic("C2", "3-5")),
}


@pytest.mark.conformance("K-E-01", "K-E-02", "K-E-07", "K-A-35")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_consumer_group_stays_classic(name: str) -> None:
    driver = REFUSED[name]()
    at = len(driver.log)
    answer = driver.beat("A e0 join")
    assert (answer.error_code, answer.member_epoch) == (69, 0)
    assert answer.error_message
    assert (driver.written(at), driver.type_of()) == ([], CLASSIC)
    assert driver.classic("C1 beat g5") == "0", "it has noticed nothing"


@pytest.mark.conformance("K-E-01")
@pytest.mark.parametrize("policy", ["bidirectional", "upgrade"])
def test_a_policy_that_allows_it_lets_a_group_be_upgraded(policy: str) -> None:
    driver = one(policy=policy)
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.type_of() == "consumer Reconciling"


@pytest.mark.conformance("K-A-34")
def test_only_who_joins_upgrades_a_group() -> None:
    driver = one()
    assert [driver.told(f"A e{epoch}") for epoch in (1, -1)] == ["69", "69"]
    assert driver.type_of() == CLASSIC


@pytest.mark.conformance("K-E-02", "K-E-04")
def test_a_member_that_was_never_assigned_anything_has_nothing() -> None:
    driver = MixedDriver(Classic("C1", b""), Classic("C2", "0-5"))
    driver.beat("A e0 join")
    assert driver.member("C1") == "e5/p5 STABLE - | -"


@pytest.mark.conformance("K-E-04", "K-C-43", "K-C-14")
def test_a_classic_member_is_of_the_consumer_group_what_it_was() -> None:
    member = Classic(
        "C1",
        "0-2 T3:0",
        group_instance_id="i-1",
        client_id="me",
        client_host="/10.0.0.1",
        session_timeout_ms=7_000,
        rebalance_timeout_ms=9_000,
        subscription=subscribed(("foo", "gone"), rack="r1", data=b"x"),
    )
    driver = MixedDriver(member)
    assert driver.told("A e0 join") == "e6 asg 3-5", "nobody had those"
    found = driver.committed().metadata["C1"]
    assert (found.instance_id, found.client_id, found.client_host) == ("i-1", "me", "/10.0.0.1")
    assert (found.rack_id, found.names, found.regex) == ("r1", {"foo", "gone"}, "")
    assert (found.rebalance_timeout_ms, found.assignor) == (9_000, None)
    assert found.classic == ClassicMetadata(7_000, (("range", member.fields["subscription"]),))
    assert driver.member("C1") == "e5/p5 STABLE 0-2@5 | -", "bar is a topic that there is not"
    assert driver.committed().classic_members == 1
    assert [(each.member_id, each.member_type) for each in driver.described().members] == [("A", 1), ("C1", 0)]


@pytest.mark.conformance("K-E-05", "K-B-124")
def test_the_first_target_after_an_upgrade_does_not_wait() -> None:
    driver = one()
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.stands() == "6/6 Reconciling"
    assert driver.told("B e0 join") == "e6 asg -"
    assert driver.stands() == "7/6 Assigning", "the second one does"


def test_an_assignment_in_a_later_version_of_the_protocol_is_read_as_far_as_it_is_known() -> None:
    driver = MixedDriver(Classic("C1", assigned("0-5", version=9), subscription=subscribed(version=9)))
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.member("C1") == "e5/p5 STABLE 0-5@5 | -"
    driver.classic("C1 join")
    assert driver.classic("C1 sync g6") == "0-2"


def test_a_cooperative_member_that_has_not_given_up_a_partition_yet_still_has_it() -> None:
    """It was assigned 0-2 and had 0-5: it joins once more when it has given back the rest."""
    driver = MixedDriver(Classic("C1", "0-2", subscription=subscribed(own="0-5")), Classic("C2", b""))
    assert driver.told("A e0 join") == "e6 asg -"
    assert driver.member("C1") == "e5/p5 UNREVOKED 0-2@5 | 3-5@5"
    assert driver.told("A e6") == "e6"
    assert driver.classic("C1 beat g5") == "27"
    assert driver.classic("C1 sync g5") == "0-2"
    assert driver.classic("C1 join own=0-5") == "g5"
    assert driver.classic("C1 join own=0-2") == "g5", "and now what the new target takes"
    assert driver.classic("C1 sync g5") == "0-1"
    assert driver.classic("C1 join own=0-1") == "g6"
    assert driver.told("A e6").startswith("e6 asg")


def test_what_a_member_says_that_it_has_does_not_count_if_it_is_anothers() -> None:
    members = Classic("C1", "0-2", subscription=subscribed(own="0-5")), Classic("C2", "3-5")
    driver = MixedDriver(*members)
    driver.told("A e0 join")
    assert driver.member("C1") == "e5/p5 STABLE 0-2@5 | -"


class WithTiny(MixedDriver):
    """A driver that has groups of a third type, too."""

    def _new_shard(self) -> GroupShard:
        super()._new_shard()
        return group_shard(self.config, lambda: str(UUID(int=next(self._ids))), (*self.types, Tiny()))


@pytest.mark.conformance("K-E-44", "K-A-34")
def test_a_group_of_a_third_type_is_not_upgraded() -> None:
    driver = WithTiny()
    assert driver.call(Enter(GROUP, "a")).error_code == 0
    assert [driver.told(f"A e{epoch}") for epoch in (1, -1)] == ["69", "69"]
    assert driver.told("A e0 join") == "69"
    assert driver.type_of() == "tiny Open"


@pytest.mark.conformance("K-E-06", "K-B-54")
def test_converted_members_have_their_own_sessions() -> None:
    driver = MixedDriver(Classic("C1", "0-2", session_timeout_ms=7_000), Classic("C2", "3-5", session_timeout_ms=9_000))
    driver.beat("A e0 join")
    driver.advance(6_900)
    assert len(driver.committed().metadata) == 3
    at = len(driver.log)
    driver.advance(200)
    assert driver.written(at) == ["x8(C1)", "x7(C1)", "x5(C1)", "3(7)"]
    driver.advance(1_900)
    assert set(driver.committed().metadata) == {"A"}


def test_to_become_another_group_is_no_sign_of_life_of_a_member() -> None:
    """A member that is gone is expelled in its session, however often its group changes over meanwhile."""
    driver = MixedDriver(Classic("C1", "0-2"), Classic("C2", "3-5"))
    for number in range(3):
        driver.advance(1_500)
        driver.told(f"A{number} e0 join")
        assert driver.type_of().startswith("consumer")
        driver.advance(1_500)
        driver.told(f"A{number} e-1")
        assert driver.type_of().startswith("classic")
    driver.advance(900)
    assert driver.classic_group().members.keys() == {"C1", "C2"}
    driver.advance(200)
    assert not driver.classic_group().members


@pytest.mark.conformance("K-B-62")
def test_loaded_members_of_either_protocol_have_a_session_of_the_group() -> None:
    driver = MixedDriver(Classic("C1", "0-5", session_timeout_ms=7_000))
    driver.beat("A e0 join")
    driver.fail_over()
    driver.advance(44_900)
    assert set(driver.committed().metadata) == {"A", "C1"}
    driver.advance(200)
    assert driver.committed().metadata == {}


@pytest.mark.conformance("K-D-29", "K-E-42", "K-E-41", "K-E-38", "K-E-43")
def test_offsets_stay_and_tools_see_a_consumer_group() -> None:
    driver = one()
    driver.commit_offset(GROUP, 9, topic="foo", generation=5, member_id="C1")
    driver.beat("A e0 join")
    assert driver.offset(GROUP, "foo") == 9
    assert [(each.group_type, each.protocol_type) for each in driver.list_groups()] == [("consumer", "consumer")]
    assert driver.list_groups(types=("classic",)) == ()
    described = driver.describe(GROUP)
    assert (described.error_code, described.group_state, described.members) == (0, "Dead", ())
    assert described.other_type == "consumer"
    assert [each.group_state for each in driver.list_groups(states=("reconciling",))] == ["Reconciling"]
    assert driver.answer(driver.delete_group(GROUP)).results == ((GROUP, 68),)


def test_a_member_that_joins_with_what_is_refused_upgrades_nothing() -> None:
    driver = one()
    at = len(driver.log)
    assert driver.told("A e0 R regex=foo( own=[]") == "128"
    assert (driver.written(at), driver.type_of()) == ([], CLASSIC)
    assert driver.classic("C1 beat g5") == "0"


# -- static members


@pytest.mark.conformance("K-E-48", "K-E-13")
def test_a_static_member_restarts_with_the_new_protocol_and_nothing_moves() -> None:
    driver = MixedDriver(Classic("C1", "0-2", group_instance_id="i-1"), Classic("C2", "3-5"))
    at = len(driver.log)
    assert driver.told("A e0 join as=i-1") == "e5 asg 0-2"
    replaced = driver.written(at)[9:]
    assert replaced == [
        *("x8(C1)", "x7(C1)", "x5(C1)", "5(A)", "7(A: 0-2)", "8(A: e0/p0 STABLE 0-2@5 | -)"),
        *("5(A)", "8(A: e5/p0 STABLE 0-2@5 | -)"),
    ]
    assert driver.stands() == "5/5 Stable"
    assert driver.classic("C1 beat g5 as=i-1") == "82"
    driver.fail_over()
    assert (driver.stands(), driver.committed().instances) == ("5/5 Stable", {"i-1": "A"})


@pytest.mark.conformance("K-E-48")
def test_a_static_member_that_subscribes_to_something_else_raises_the_epoch() -> None:
    driver = MixedDriver(Classic("C1", "0-5", group_instance_id="i-1"), topics=(FOO, BAR))
    assert driver.told("A e0 R names=foo,bar own=[] as=i-1") == "e6 asg 0-5 T3:0"


# -- topics


def test_the_topics_of_an_upgraded_group_are_hashed_as_those_of_others() -> None:
    driver = one()
    driver.beat("A e0 join")
    epochs = [GROUP_RECORDS.decode(*record) for record in driver.log if record.key[:2] == b"\0\3"]
    assert len({each.metadata_hash for each in epochs}) == 1
    driver.set_topics(Topic(FOO.topic_id, "foo", 8))
    driver.advance(1_100)
    assert driver.told("A e6") == "e7 asg 6"
    assert driver.stands() == "7/7 Reconciling"
