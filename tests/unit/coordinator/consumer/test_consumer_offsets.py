"""Offsets of consumer groups: who may commit and fetch, and when they go."""

from __future__ import annotations

import pytest

from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.groups.messages import DeleteGroupsRequest, OffsetDeleteRequest, OffsetFetchRequest
from tests.support.consumer_groups import BAR, FOO, GROUP, ConsumerDriver, Slow
from tests.support.offset_rows import commit_request

DAY_MS = 86_400_000
RETENTION_MS = 7 * DAY_MS


def two(**settings: int) -> ConsumerDriver:
    """A (e3/p2) has 0-2@2, B (e3/p3) has 3-5@3."""
    driver = ConsumerDriver(FOO, BAR, settings=ConsumerSettings(**settings))  # type: ignore[arg-type]
    driver.join("A", "B")
    assert driver.member("A") == "e3/p2 STABLE 0-2@2 | -"
    return driver


def empty() -> ConsumerDriver:
    driver = two()
    driver.beat("A e-1")
    driver.beat("B e-1")
    return driver


@pytest.mark.conformance("K-D-01", "K-D-28")
def test_anybody_commits_to_an_empty_group_without_an_epoch() -> None:
    driver = empty()
    assert driver.commits("", -1, "0") == [0]
    assert driver.commits("whoever", -1, "0") == [0]
    assert driver.commits("A", 3, "0") == [25]


@pytest.mark.conformance("K-D-03", "K-D-28")
def test_who_is_no_member_does_not_commit_while_there_are_members() -> None:
    driver = two()
    assert driver.commits("", -1, "0,1") == [25, 25]
    assert driver.commits("C", 3, "0") == [25]


@pytest.mark.conformance("K-D-04")
def test_a_member_commits_by_a_version_that_knows_epochs() -> None:
    driver = two()
    assert driver.commits("A", 3, "0", version=8) == [35]
    assert driver.commits("A", 3, "0", version=9) == [0]


@pytest.mark.conformance("K-D-05", "K-D-08", "K-D-12")
def test_an_epoch_that_is_ahead_is_refused_for_all_partitions() -> None:
    assert two().commits("A", 4, "0,1,5") == [113, 113, 113]


@pytest.mark.conformance("K-D-30", "K-D-10", "K-D-11")
def test_with_its_own_epoch_a_member_commits_whatever_it_likes() -> None:
    driver = two()
    assert driver.commits("A", 3, "0,5 T3:0") == [0, 0, 0]
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.beat("A e3")
    assert "UNREVOKED" in driver.member("A")
    assert driver.commits("A", 3, "0-2") == [0, 0, 0]


@pytest.mark.conformance("K-D-06", "K-D-07", "K-D-08", "K-D-09")
def test_with_an_older_epoch_a_member_commits_what_it_has_held_since() -> None:
    driver = two()
    assert driver.commits("A", 2, "0-2") == [0, 0, 0]
    assert driver.commits("A", 1, "0") == [113]
    assert driver.commits("A", 2, "0,3") == [113, 113], "one partition fails them all"
    assert driver.commits("A", 2, "0 T3:0") == [113, 113]
    assert driver.commits("B", 2, "3") == [113]
    assert driver.offset(GROUP, "foo", 3) == -1


@pytest.mark.conformance("K-D-06", "K-D-07")
def test_what_a_member_has_to_give_back_it_may_commit_with_an_older_epoch() -> None:
    driver = two()
    driver.advance(1_100)
    driver.beat("C e0 join")
    driver.beat("A e3")
    assert driver.member("A") == "e3/p3 UNREVOKED 0-1@2 | 2@2"
    assert driver.commits("A", 2, "0-2") == [0, 0, 0]


@pytest.mark.conformance("K-D-31")
def test_a_static_member_that_is_away_commits_with_its_epoch_and_its_successor_with_any() -> None:
    driver = ConsumerDriver()
    driver.beat("S1 e0 join as=i-s")
    driver.beat("S1 e-2 as=i-s")
    assert [driver.commits("S1", epoch, "0") for epoch in (-2, 0, 2, -1)] == [[0], [113], [113], [113]]
    driver.beat("S2 e0 join as=i-s")
    assert [driver.commits("S2", epoch, "0") for epoch in (0, 1, 2, 3)] == [[0], [0], [0], [113]]


@pytest.mark.conformance("K-D-08")
def test_a_group_that_does_not_exist_is_made_without_an_epoch_alone() -> None:
    driver = ConsumerDriver()
    assert driver.commits("A", 3, "0", version=9) == [69]
    assert driver.commits("A", 3, "0", version=8) == [22]
    assert driver.commits("", -1, "0") == [0]
    assert [each.group_type for each in driver.list_groups()] == ["classic"]


# -- fetches


def fetched(driver: ConsumerDriver, member_id: str | None, epoch: int, *, stable: bool = False) -> tuple[int, int]:
    """The error of a fetch, and the offset of partition 0 if there is none."""
    answer = driver.call(OffsetFetchRequest(GROUP, (("foo", 0),), stable, member_id, epoch))
    return int(answer.error_code), answer.offsets[0].offset if answer.offsets else -9


@pytest.mark.conformance("K-D-15", "K-D-16")
def test_a_fetch_has_to_have_the_members_epoch() -> None:
    driver = two()
    driver.commits("A", 3, "0", offset=7)
    assert fetched(driver, None, -1) == (0, 7)
    assert fetched(driver, "A", 3) == (0, 7)
    assert fetched(driver, "A", 2) == (113, -9), "though it may commit so"
    assert fetched(driver, "A", 4) == (113, -9)
    assert fetched(driver, "C", 3) == (25, -9)
    assert fetched(driver, "", -1) == (25, -9)
    assert fetched(driver, None, 0) == (25, -9)


@pytest.mark.conformance("K-D-17")
def test_a_fetch_is_judged_by_what_has_committed() -> None:
    driver = two()
    driver.commits("A", 3, "0 T3:0", offset=7)
    driver.advance(1_100)
    driver.holds = True
    driver.beat_later("B e-1")
    driver.ask(commit_request(GROUP, 3, "A", None, [("foo", 0, 8, -1, "")], 9, -1))
    driver.ask(OffsetDeleteRequest(GROUP, (("bar", 0),)))
    assert fetched(driver, "B", 3) == (0, 7), "neither the leave nor the commit has committed"
    assert driver.offset(GROUP, "bar") == 7, "nor has the deletion"
    driver.holds = False
    driver.turn()
    assert fetched(driver, "B", 3) == (25, -9)
    assert fetched(driver, "A", 3) == (0, 8)
    assert driver.offset(GROUP, "bar") == -1


@pytest.mark.conformance("K-D-17")
def test_a_stable_fetch_comes_after_the_writes_before_it() -> None:
    driver = two()
    driver.holds = True
    driver.beat_later("B e-1")
    token = driver.ask(OffsetFetchRequest(GROUP, (("foo", 0),), True, "B", 3))
    assert driver.answer(token) is None
    driver.holds = False
    driver.turn()
    assert driver.answer(token).error_code == 25


@pytest.mark.conformance("K-D-18")
def test_a_group_that_does_not_exist_has_no_offsets_and_no_error() -> None:
    assert fetched(ConsumerDriver(), "A", 3) == (0, -1)


# -- while records are under way


def under_way(text: str, *, members: str = "AB") -> ConsumerDriver:
    """A heartbeat's records are written, and have not committed."""
    driver = ConsumerDriver(FOO, BAR)
    if members:
        driver.join(*members)
        driver.advance(1_100)
    driver.holds = True
    driver.beat_later(text)
    assert len(driver.held) == 1
    return driver


def committed_then(driver: ConsumerDriver, member_id: str, epoch: int, partition: int, *, refused: bool) -> int:
    """The error of a commit that is sent now, whether the log takes what is under way or not."""
    rows = [("foo", partition, 1, -1, "")]
    token = driver.ask(commit_request(GROUP, epoch, member_id, None, rows, 9, -1))
    if refused:
        driver.refuse(19)
    driver.holds = False
    driver.turn()
    return int(driver.answer(token).error_codes[0])


@pytest.mark.conformance("K-D-01", "K-D-03", "K-D-06", "K-D-07", "K-D-28", "K-D-30")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(
    ("members", "beat", "member_id", "epoch", "partition", "error"),
    [
        ("", "A e0 join", "", -1, 0, 25),
        ("A", "A e-1", "A", 2, 0, 25),
        ("A", "A e-1", "", -1, 0, 25),
        ("AB", "B e-1", "B", 3, 3, 25),
        ("AB", "B e-1", "A", 3, 0, 0),
        ("AB", "A e3 rack=r", "A", 3, 5, 0),
    ],
)
def test_a_commit_is_judged_by_what_is_written_too(
    members: str, beat: str, member_id: str, epoch: int, partition: int, error: int, refused: bool
) -> None:
    driver = under_way(beat, members=members)
    assert committed_then(driver, member_id, epoch, partition, refused=refused) == error


@pytest.mark.conformance("K-D-06", "K-D-09")
@pytest.mark.parametrize(("partition", "error"), [(0, 0), (3, 113)])
def test_what_a_member_is_giving_back_it_does_not_commit_with_its_older_epoch(partition: int, error: int) -> None:
    driver = ConsumerDriver(FOO, BAR)
    driver.join("A")
    driver.advance(1_100)
    driver.beat("B e0 join")
    assert driver.told("A e2") == "e2 asg 0-2"
    driver.holds = True
    driver.beat_later("A e2 own=0-2")
    assert committed_then(driver, "A", 2, partition, refused=False) == error


@pytest.mark.conformance("K-D-27")
@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(("members", "beat"), [("", "A e0 join"), ("A", "A e-1"), ("A", "A e2 names=bar")])
def test_offsets_of_topics_that_members_begin_or_cease_to_read_are_not_deleted(
    members: str, beat: str, refused: bool
) -> None:
    driver = ConsumerDriver(FOO, BAR)
    driver.join("Z")
    driver.commits("Z", 2, "0")
    driver.beat("Z e-1")
    if members:
        driver.join(*members)
        driver.advance(1_100)
    driver.holds = True
    epoch = driver.committed().current_of("A").epoch
    driver.beat_later(beat.replace("e2", f"e{epoch}"))
    assert len(driver.held) == 1
    deleted = driver.delete_offsets(GROUP, ("foo", 0))
    assert [code for _, _, code in deleted.partitions] == [86]
    if refused:
        driver.refuse(19)
    driver.holds = False
    driver.turn()
    assert driver.offset(GROUP, "foo") == 1


@pytest.mark.conformance("K-D-01", "K-D-27")
def test_once_it_is_known_what_became_of_a_write_no_more_is_judged_by_it() -> None:
    driver = under_way("A e0 join", members="")
    driver.refuse(19)
    driver.holds = False
    assert driver.commits("", -1, "0") == [0]
    assert [code for _, _, code in driver.delete_offsets(GROUP, ("foo", 0)).partitions] == [0]


# -- their end


@pytest.mark.conformance("K-D-23", "K-D-24")
def test_offsets_of_subscribed_topics_do_not_expire_and_others_do_after_their_commit() -> None:
    driver = two(session_timeout_ms=2 * RETENTION_MS)
    driver.commits("A", 3, "0 T3:0")
    driver.advance(RETENTION_MS - 600_000)
    assert driver.offset(GROUP, "bar", 0) == 1
    driver.advance(1_200_000)
    assert (driver.offset(GROUP, "foo", 0), driver.offset(GROUP, "bar", 0)) == (1, -1)


@pytest.mark.conformance("K-D-25", "K-C-42", "K-C-45")
def test_an_empty_group_goes_with_its_last_offset() -> None:
    driver = empty()
    driver.commits("", -1, "0")
    driver.advance(RETENTION_MS - 1_000_000)
    assert driver.stands() == "5/5 Empty"
    at = len(driver.log)
    driver.advance(2_000_000)
    assert driver.stands() == ""
    assert driver.written(at) == ["x1", "x6", "x4", "x3"]


@pytest.mark.conformance("K-D-23")
@pytest.mark.parametrize("joins", [False, True])
def test_offsets_do_not_expire_while_a_first_target_is_computed_with_their_topics(joins: bool) -> None:
    driver = ConsumerDriver(assignors=(Slow(),), settings=ConsumerSettings(assignors=("uniform",)))
    interval_ms = driver.config.offsets_retention_check_interval_ms
    began_ms = driver.now.monotonic_ms
    driver.commit_offset(GROUP, 7, topic="foo")
    driver.advance(1)
    driver.commit_offset(GROUP, 8, topic="foo", partition=1)
    driver.advance(began_ms + RETENTION_MS - 2 - driver.now.monotonic_ms)
    if joins:
        driver.beat_later("A e0 join")
    driver.advance(2)
    assert RETENTION_MS % interval_ms == 0, "it was looked for expired offsets just now"
    assert driver.offset(GROUP, "foo") == (7 if joins else -1)
    driver.advance(1_000)
    assert driver.offset(GROUP, "foo") == (7 if joins else -1)


@pytest.mark.conformance("K-D-25")
def test_an_empty_group_without_offsets_goes_at_the_next_run() -> None:
    driver = empty()
    driver.advance(600_001)
    assert driver.stands() == ""


@pytest.mark.conformance("K-D-26", "K-C-42", "K-C-45")
def test_a_group_is_deleted_when_it_is_empty() -> None:
    driver = two()
    driver.commits("A", 3, "0")
    driver.commit_offset("other", 1)
    assert driver.answer(driver.delete_group(GROUP)).results == ((GROUP, 68),)
    driver.beat("A e-1")
    driver.beat("B e-1")
    at = len(driver.log)
    token = driver.ask(DeleteGroupsRequest((GROUP, "other", "none")))
    assert driver.answer(token).results == ((GROUP, 0), ("other", 0), ("none", 69))
    assert driver.written(at)[:4] == ["x1", "x6", "x4", "x3"]
    assert driver.answer(driver.delete_group(GROUP)).results == ((GROUP, 69),)


@pytest.mark.conformance("K-D-26")
def test_a_group_whose_tombstones_are_not_written_is_empty_again() -> None:
    driver = empty()
    driver.holds = True
    token = driver.delete_group(GROUP)
    assert driver.told("A e0 join") == "15", "it is being deleted"
    driver.refuse(19)
    assert driver.answer(token).results == ((GROUP, 15),)
    driver.holds = False
    assert driver.stands() == "5/5 Empty"
    assert driver.told("A e0 join") == "e6 asg 0-5"


@pytest.mark.conformance("K-D-27")
def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    driver = two()
    driver.commits("A", 3, "0 T3:0")
    deleted = driver.delete_offsets(GROUP, ("foo", 0), ("bar", 0))
    assert (deleted.error_code, deleted.partitions) == (0, (("foo", 0, 86), ("bar", 0, 0)))
    assert (driver.offset(GROUP, "foo", 0), driver.offset(GROUP, "bar", 0)) == (1, -1)


@pytest.mark.conformance("K-D-29")
def test_offsets_survive_a_group_that_takes_over() -> None:
    driver = ConsumerDriver()
    driver.commit_offset(GROUP, 9, topic="foo")
    driver.beat("A e0 join")
    driver.fail_over()
    assert fetched(driver, "A", 2) == (0, 9)


@pytest.mark.conformance("K-D-33")
def test_offsets_of_a_deleted_topic_go_at_once() -> None:
    driver = two()
    driver.commits("A", 3, "0")
    driver.delete_topics("foo")
    assert driver.offset(GROUP, "foo", 0) == -1
