"""Descriptions of consumer groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from actors.coordinator.consumer.describe import SLICE_WORK
from actors.coordinator.consumer.messages import ConsumerGroupDescribeRequest, DescribedMember, DescribedTopic
from actors.coordinator.consumer.records import MemberRecord
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.values import ClassicMetadata, MemberMetadata
from actors.coordinator.groups.messages import MaySleepRequest
from actors.coordinator.records import encode
from tests.support.classic_members import MixedDriver, join_request
from tests.support.consumer_groups import BAR, FOO, GROUP, T1, T3, ConsumerDriver, beat_request, records_of
from tests.support.coordination import Client, stable_group


def two() -> ConsumerDriver:
    """A has 0-2, and B 3-5."""
    driver = ConsumerDriver(FOO, BAR)
    driver.join("A", "B")
    return driver


@pytest.mark.conformance("K-A-57", "K-A-58", "K-A-63")
def test_a_group_is_described_with_its_epochs_and_members() -> None:
    driver = two()
    driver.beat("B e3 rack=r1 client=d")
    group = driver.described()
    assert (group.error_code, group.error_message, group.state) == (0, None, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor) == (3, 3, "uniform")
    assert [each.member_id for each in group.members] == ["A", "B"]
    member = group.members[1]
    assert (member.instance_id, member.rack_id, member.member_epoch) == (None, "r1", 3)
    assert (member.client_id, member.client_host, member.member_type) == ("d", "/127.0.0.1", 1)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("foo",), "")
    assert member.assignment == member.target == (DescribedTopic(T1, "foo", (3, 4, 5)),)


@pytest.mark.conformance("K-A-59")
def test_what_is_no_consumer_group_is_not_found() -> None:
    driver = two()
    driver.commit_offset("other", 1)
    asked = driver.call(ConsumerGroupDescribeRequest(("", "none", "other", GROUP))).groups
    assert [each.error_code for each in asked] == [24, 69, 69, 0]
    assert [bool(each.error_message) for each in asked] == [False, True, True, False]
    driver.shard.unload()
    assert [each.error_code for each in driver.call(ConsumerGroupDescribeRequest((GROUP,))).groups] == [16]
    driver.shard.start_loading(1, driver.now)
    assert [each.error_code for each in driver.call(ConsumerGroupDescribeRequest((GROUP,))).groups] == [14]


MANY = 1_000


def members_of(driver: ConsumerDriver, token: int) -> list[DescribedMember]:
    """The members in the pieces of an answer, and in the answer itself."""
    pieces = [piece for piece in driver.pieces if piece.token == token]
    found = [member for piece in pieces for _, members in piece.members for member in members]
    answer = driver.answers.get(token)
    return found if answer is None else [*found, *answer.groups[0].members]  # type: ignore[union-attr]


@pytest.mark.conformance("K-A-61")
def test_a_description_of_many_members_takes_turns_of_a_moment_and_is_of_one_moment() -> None:
    """A description of 5,000 members was one turn of 100 ms, in which no other group's heartbeat was answered."""
    driver = large_group(MANY)
    token = driver.ask(ConsumerGroupDescribeRequest((GROUP, "none")))
    assert driver.answer(token) is None
    assert driver.beat("m-0999 e-1").member_epoch == -1, "other requests are answered meanwhile"
    assert len(driver.consumer().state.metadata) == MANY - 1
    turns = 1
    while driver.answer(token) is None:
        driver.advance(1)
        turns += 1
    most = max(sum(len(members) for _, members in piece.members) for piece in driver.pieces)
    assert turns == len(driver.pieces) + 1
    assert most * (1 + 1 + 2) <= SLICE_WORK, "members, each with a name and a partition that it has and is to have"
    members = members_of(driver, token)
    assert [each.member_id for each in members] == [f"m-{n:04}" for n in range(MANY)]
    assert {each.assignment for each in members} == {(DescribedTopic(T1, "foo", (n,)),) for n in range(MANY)}
    assert [each.error_code for each in driver.answers[token].groups] == [0, 69]  # type: ignore[union-attr]


def test_a_few_members_are_described_at_once_in_one_answer() -> None:
    driver = large_group(20)
    assert len(driver.described().members) == 20
    assert driver.pieces == []


def values_by_turn(driver: ConsumerDriver, tokens: list[int]) -> list[int]:
    """The number of partitions, assigned or targeted, that each turn tells, until all are answered."""

    def told() -> int:
        members = [member for token in tokens for member in members_of(driver, token)]
        return sum(len(topic.partitions) for each in members for topic in (*each.assignment, *each.target))

    sums = [0, told()]
    while any(driver.answer(token) is None for token in tokens):
        driver.advance(1)
        sums.append(told())
    return [after - before for before, after in pairwise(sums)]


def test_many_partitions_of_few_topics_were_described_in_one_turn() -> None:
    """Topics were counted, not their partitions: 200 members with 5,000 each were a turn of 200 ms."""
    driver = large_group(50, each=200)
    token = driver.ask(ConsumerGroupDescribeRequest((GROUP,)))
    turns = values_by_turn(driver, [token])
    assert max(turns) <= SLICE_WORK + 2 * 200, "a slice and what is left of its last member"
    members = members_of(driver, token)
    assert [each.assignment[0].partitions for each in members] == [
        tuple(range(n, n + 200)) for n in range(0, 10_000, 200)
    ]


def test_many_descriptions_at_once_were_made_in_the_same_turns() -> None:
    """Each took its own slice: 200 of them had every other request wait for a quarter of a second, again and again."""
    driver = large_group(300)
    request = ConsumerGroupDescribeRequest((GROUP,))
    tokens = [driver.ask(request) for _ in range(5)]
    turns = values_by_turn(driver, tokens)
    assert max(turns) * (1 + 1 + 2) // 2 <= SLICE_WORK, "one slice of all descriptions"
    for token in tokens:
        assert [each.member_id for each in members_of(driver, token)] == [f"m-{n:04}" for n in range(300)]


def test_a_small_description_comes_after_those_that_were_asked_for_before() -> None:
    driver = large_group(MANY)
    driver.commit_offset("other", 1)
    first = driver.ask(ConsumerGroupDescribeRequest((GROUP,)))
    second = driver.ask(ConsumerGroupDescribeRequest(("other",)))
    while driver.answer(second) is None:
        driver.advance(1)
    assert driver.answer(first) is not None


def test_names_of_no_groups_are_looked_up_in_turns_too() -> None:
    driver = two()
    token = driver.ask(ConsumerGroupDescribeRequest(tuple(f"none-{n}" for n in range(SLICE_WORK + 10))))
    assert driver.answer(token) is None
    driver.advance(1)
    assert {each.error_code for each in driver.answers[token].groups} == {69}  # type: ignore[union-attr]
    assert driver.pieces == []


def test_a_description_whose_request_was_dropped_is_not_gone_on_with() -> None:
    driver = large_group(MANY)
    driver.ask(ConsumerGroupDescribeRequest((GROUP,)))
    driver.shard.drop(lambda _: True)
    token = driver.ask(ConsumerGroupDescribeRequest(("none",)))
    driver.advance(1)
    assert driver.answer(token) is not None
    assert len(driver.pieces) == 1


def test_a_long_description_ends_with_its_shard() -> None:
    driver = large_group(MANY)
    token = driver.ask(ConsumerGroupDescribeRequest((GROUP,)))
    assert len(driver.pieces) == 1
    driver.shard.unload()
    driver.turn()
    assert [each.error_code for each in driver.answers[token].groups] == [16]  # type: ignore[union-attr]
    driver.advance(100)
    assert len(driver.pieces) == 1
    driver.load(1)
    assert driver.answer(driver.ask(ConsumerGroupDescribeRequest(("none",)))) is not None, "nothing is left before it"


def large_group(members: int, each: int = 1) -> ConsumerDriver:
    """A stable group whose members have so many partitions each."""
    return ConsumerDriver(Topic(T1, "foo", members * each), log=encode(records_of(members, each)))


@pytest.mark.conformance("K-A-61")
def test_what_has_not_committed_is_not_shown() -> None:
    driver = two()
    driver.advance(1_100)
    driver.holds = True
    driver.beat_later("C e0 join")
    driver.beat_later("A e0 join", "new")
    assert [each.member_id for each in driver.described().members] == ["A", "B"]
    assert driver.described().group_epoch == 3
    assert driver.described("new").error_code == 69
    assert [each.group_id for each in driver.list_groups()] == [GROUP]
    driver.holds = False
    driver.turn()
    assert driver.described().group_epoch == 4


@pytest.mark.conformance("K-A-62")
def test_topics_that_do_not_exist_are_left_out() -> None:
    driver = two()
    driver.set_topics(BAR)
    assert driver.described().members[0].assignment == driver.described().members[0].target == ()


@pytest.mark.conformance("K-A-65")
def test_a_static_member_that_is_away_is_shown() -> None:
    driver = ConsumerDriver()
    driver.beat("S e0 join as=i-s")
    driver.beat("S e-2 as=i-s")
    member = driver.described().members[0]
    assert (member.instance_id, member.member_epoch) == ("i-s", -2)
    assert member.assignment == (DescribedTopic(T1, "foo", tuple(range(6))),)


@pytest.mark.conformance("K-A-79")
def test_what_a_member_has_to_give_back_is_shown_as_its_own() -> None:
    driver = two()
    driver.advance(1_100)
    driver.beat("A e3 names=bar")
    member = driver.described().members[0]
    assert member.assignment == (DescribedTopic(T1, "foo", (0, 1, 2)),)
    assert member.target == (DescribedTopic(T3, "bar", (0,)),)


@pytest.mark.conformance("K-A-63")
def test_a_member_of_the_classic_protocol_is_shown_as_one() -> None:
    driver = two()
    classic = MemberMetadata(classic=ClassicMetadata(45_000, (("range", b"\0\0"),)))
    driver.log += encode([MemberRecord(GROUP, "A", classic)])
    driver.fail_over()
    assert [each.member_type for each in driver.described().members] == [0, 1]


@pytest.mark.conformance("K-B-117")
def test_a_group_is_listed_with_its_type_and_state() -> None:
    driver = two()
    stable_group(driver, Client(driver, "c"))
    rows = {(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in driver.list_groups()}
    assert rows == {(GROUP, "consumer", "Stable", "consumer"), ("g", "consumer", "Stable", "classic")}
    assert [each.group_id for each in driver.list_groups(types=("CONSUMER",))] == [GROUP]
    driver.beat("B e-1")
    assert [each.group_id for each in driver.list_groups(states=("assigning",))] == [GROUP]
    counts = driver.shard.coordinator.group_counts_by_type()
    assert counts == {"consumer": {"Assigning": 1}, "classic": {"Stable": 1}}


@pytest.mark.conformance("K-B-02", "K-B-06", "K-A-61")
def test_a_group_that_is_being_deleted_is_empty_until_it_is_gone() -> None:
    driver = ConsumerDriver()
    driver.join("A")
    driver.beat("A e-1")
    driver.holds = True
    driver.delete_group(GROUP)
    assert driver.described().state == "Empty"
    assert [each.group_state for each in driver.list_groups()] == ["Empty"]
    assert driver.shard.coordinator.group_counts() == {"Empty": 1}
    assert driver.shard.coordinator.group_status(GROUP, driver.now).state == "Empty"
    assert driver.told("B e0 join") == "15"
    driver.holds = False
    driver.turn()
    assert driver.described().error_code == 69
    assert driver.shard.coordinator.group_counts() == {}


@pytest.mark.conformance("K-A-59", "K-A-61", "K-B-05")
@pytest.mark.parametrize("has_had_members", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_an_empty_classic_group_is_shown_until_the_one_in_its_place_has_committed(
    has_had_members: bool, refused: bool
) -> None:
    driver = ConsumerDriver()
    if has_had_members:
        client = Client(driver, "c", group_id=GROUP)
        stable_group(driver, client)
        driver.leave(GROUP, (client.member_id, None))
    driver.commit_offset(GROUP, 7)

    def shown() -> tuple[object, ...]:
        coordinator = driver.shard.coordinator
        return (
            driver.described().error_code,
            driver.describe(GROUP),
            driver.list_groups(),
            driver.list_groups(types=("consumer",)),
            coordinator.group_counts(),
            coordinator.group_counts_by_type(),
        )

    before = shown()
    assert before[0] == 69
    driver.holds = True
    driver.beat_later("A e0 join")
    assert shown() == before
    if refused:
        driver.refuse(19)
        assert shown() == before
    else:
        driver.holds = False
        driver.turn()
        assert driver.described().error_code == 0
        assert driver.describe(GROUP).group_state == "Dead"
        assert [(each.group_type, each.group_state) for each in driver.list_groups()] == [("consumer", "Stable")]


def test_an_older_tool_is_told_that_the_group_is_dead() -> None:
    described = two().describe(GROUP)
    assert (described.error_code, described.group_state, described.members) == (0, "Dead", ())


def test_who_keeps_others_waiting_is_told() -> None:
    driver = two()
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.beat("A e3")
    status = driver.shard.coordinator.group_status(GROUP, driver.now)
    assert status is not None
    assert (status.group_type, status.state, status.epoch, status.members) == ("consumer", "Reconciling", 4, 3)
    assert (status.awaited_members, status.phase_ends_in_ms) == (("A",), 300_000)
    assert [each.reason for each in status.rebalances] == ["member joined"] * 3
    assert driver.shard.coordinator.awaited(GROUP) == (("A",), driver.now.monotonic_ms + 300_000)


def test_rebalances_are_told_from_the_epochs_rise_until_all_have_their_targets() -> None:
    driver = two()
    driver.beat("B e-1")
    driver.advance(1_100)
    driver.beat("A e3")
    driver.advance(45_000)
    told = [each.view() for each in driver.shard.coordinator.rebalances.take_over()[0]]
    assert [(each.reason, each.member_id, each.epoch, each.members) for each in told] == [
        ("member joined", "A", 1, 1),
        ("member joined", "B", 2, 2),
        ("member left", "B", 3, 1),
        ("session timed out", "A", 4, 0),
    ]
    assert [(each.came, each.left, each.expelled) for each in told] == [
        (("A",), (), ()),
        (("B",), (), ()),
        ((), ("B",), ()),
        ((), (), ("A",)),
    ]
    assert all(each.ended_ms for each in told)


def test_a_static_member_that_is_back_is_told_as_replaced() -> None:
    driver = ConsumerDriver()
    driver.beat("S1 e0 join as=i-s")
    driver.beat("S1 e-2 as=i-s")
    driver.beat("S2 e0 join as=i-s")
    told = [each.view() for each in driver.shard.coordinator.rebalances.take_over()[0]]
    assert [(each.replaced, each.came) for each in told] == [((), ("S1",)), (("S1",), ("S2",))]


def test_what_a_member_says_of_its_process_is_told_when_it_comes() -> None:
    driver = ConsumerDriver()
    for text, process in (
        ("S1 e0 join as=i-s", "pool pid 7"),
        ("S1 e-2 as=i-s", ""),
        ("S2 e0 join as=i-s", "pool pid 8"),
    ):
        assert driver.call(replace(beat_request(text), process=process)).error_code == 0
    driver.advance(1_100)
    joining = replace(beat_request("S3 e0 R names=foo,foobar own=[] as=i-s"), process="pool pid 9")
    driver.beat("S2 e-2 as=i-s")
    assert driver.call(joining).error_code == 0, "which subscribes to something else"
    told = [each.view().processes for each in driver.shard.coordinator.rebalances.take_over()[0]]
    assert told == [{"S1": "pool pid 7"}, {"S2": "pool pid 8"}, {"S3": "pool pid 9"}]


def test_a_classic_member_of_a_consumer_group_tells_its_process_too() -> None:
    driver = MixedDriver()
    driver.join("A")
    driver.advance(1_100)
    driver.call(replace(join_request("D", {}), process="pool pid 7"))
    driver.beat("A e2 own=3-5")
    running = driver.shard.coordinator.rebalances.running[GROUP]
    assert running.changes.processes == {"D": "pool pid 7"}


def test_a_shard_with_members_stays_awake() -> None:
    driver = two()
    assert driver.call(MaySleepRequest()).busy == f"group {GROUP} is Stable"
    driver.beat("A e-1")
    driver.beat("B e-1")
    driver.commits("", -1, "0")
    asleep = driver.call(MaySleepRequest())
    assert (asleep.busy, [each.group_type for each in asleep.groups]) == ("", ["consumer"])
