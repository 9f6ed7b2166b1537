"""The shard as its driver sees it: appends and their outcomes, answers, lateness, and views for operators."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import JoinGroupResponse
from actors.coordinator.classic.records import GroupMetadata, GroupPut
from actors.coordinator.classic.states import GroupState
from actors.coordinator.group_types import GROUP_RECORDS, group_shard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, OffsetDeleteRequest
from actors.coordinator.groups.offset_records import OffsetsDeleted
from actors.coordinator.records import encode
from actors.coordinator.shard import ShardState
from actors.coordinator.timers import Timer, Timers
from actors.coordinator.turn import Now
from tests.support.coordination import Client, Driver, stable_group
from tests.support.offset_rows import commit_request, commit_rows

MINUTE = 60_000


def errors(driver: Driver, token: int) -> list[int] | None:
    answer = driver.answer(token)
    return None if answer is None else list(answer.error_codes)


# -- several appends under way


def test_a_turn_shares_one_append() -> None:
    driver = Driver()
    driver.holds = True
    shard = driver.shard
    for token in range(3):
        shard.handle(token, commit_request(f"g{token}", -1, "", None, [("t", 0, 1, -1, "")]), driver.now)
    append = shard.take_records()
    assert append is not None
    assert len(append.records) == 3
    assert shard.take_records() is None


def test_a_turn_that_wrote_too_much_makes_several_appends() -> None:
    driver = Driver(CoordinatorConfig(max_message_bytes=300))
    driver.holds = True
    shard = driver.shard
    for token in range(4):
        shard.handle(token, commit_request("g", -1, "", None, [("t", token, 1, -1, "")]), driver.now)
    large = [("t", n, 1, -1, "m" * 100) for n in range(10)]
    shard.handle(4, commit_request("g", -1, "", None, large), driver.now)
    driver.turn()
    assert [len(append.records) for append in driver.held] == [3, 1, 10]  # an atomic write is not cut
    driver.release()
    assert [errors(driver, token) for token in range(5)] == [[0]] * 4 + [[0] * 10]


def test_answers_follow_the_high_watermark() -> None:
    driver = Driver()
    driver.holds = True
    first, second = driver.commit_offset("g", 1), driver.commit_offset("g", 2)
    driver.append(), driver.append()
    assert errors(driver, first) is None
    driver.commit(1)
    assert (errors(driver, first), errors(driver, second)) == ([0], None)
    assert driver.offset("g") == 1
    driver.commit(2)
    assert errors(driver, second) == [0]


def test_the_watermark_may_be_ahead_of_the_news_of_the_append() -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    driver.shard.high_watermark(1, driver.now)
    driver.append()
    assert errors(driver, token) == [0]


def test_a_refusal_does_not_touch_what_was_sent_after_it() -> None:
    driver = Driver()
    driver.holds = True
    first, second, third = (driver.commit_offset("g", n) for n in (1, 2, 3))
    driver.append()
    driver.refuse(19)
    driver.append()
    driver.commit()
    assert [errors(driver, token) for token in (first, second, third)] == [[0], [15], [0]]
    assert driver.offset("g") == 3
    assert not driver.shard.needs_reload


def test_a_group_stays_when_only_one_of_its_writes_fails() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1), driver.commit_offset("g", 2)
    driver.refuse(19)
    assert driver.state() == "Empty"
    driver.release()
    assert [group.group_id for group in driver.list_groups()] == ["g"]


def test_a_new_group_whose_record_is_refused_fails_those_who_wait() -> None:
    driver = Driver(CoordinatorConfig())
    driver.holds = True
    a, b = Client(driver, "a", version=3), Client(driver, "b", version=3)
    a.ask_join(), b.ask_join()
    driver.refuse(19)
    assert [x.join_answer.error_code for x in (a, b) if x.join_answer] == [15, 15]
    assert driver.group_or_none() is None
    driver.advance(MINUTE)
    assert len(driver.answers) == 2


def test_a_parked_join_outlives_the_deadline_of_its_groups_record() -> None:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=8_000))
    driver.holds = True
    a = Client(driver, "a", version=3)
    a.ask_join()
    driver.append()
    driver.advance(7_999)
    assert a.join_answer is None
    driver.advance(1)
    assert a.joined().generation_id == 1


def test_deleting_covers_what_is_under_way() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1), driver.commit_offset("h", 1, topic="gone")
    delete = driver.ask(OffsetDeleteRequest("g", (("orders", 0),)))
    topics = driver.ask(DeleteTopicOffsetsRequest(frozenset({"gone"})))
    driver.release()
    assert driver.answer(delete).partitions == (("orders", 0, 0),)
    assert driver.answer(topics).error_code == 0
    said = [GROUP_RECORDS.decode(*record) for record in driver.log]
    deleted = [change for change in said if isinstance(change, OffsetsDeleted)]
    assert deleted == [OffsetsDeleted("g", [("orders", 0)]), OffsetsDeleted("h", [("gone", 0)])]
    assert [driver.fetch("g"), driver.fetch("h")] == [(), ()]
    driver.holds = True
    driver.commit_offset("k", 1)
    driver.delete_group("k")
    driver.release()
    assert OffsetsDeleted("k", [("orders", 0)]) in [GROUP_RECORDS.decode(*record) for record in driver.log]


def test_expiry_leaves_groups_alone_that_are_being_written() -> None:
    config = CoordinatorConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=3_000)
    driver = Driver(config)
    driver.commit_offset("g", 1, timestamp=0)
    driver.holds = True
    token = driver.commit_offset("g", 2)
    driver.advance(3_000)
    assert driver.state() == "Empty"
    driver.release()
    assert errors(driver, token) == [0]
    driver.holds = False
    driver.advance(3_000)
    assert driver.offset("g") == 2


# -- outcomes that are unknown


def test_forgetting_answers_16_and_demands_a_reload() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.holds = True
    token = driver.commit_offset("h", 1)
    b = Client(driver, "b").join()
    driver.shard.forget()
    driver.collect(driver.shard)
    assert errors(driver, token) == [16]
    assert b.join_answer is not None
    assert b.join_answer.error_code == 16
    assert driver.shard.needs_reload
    assert a.heartbeat() == 16
    assert driver.shard.next_deadline() is None
    driver.held.clear()
    driver.load()  # at the same epoch
    assert not driver.shard.needs_reload
    assert a.heartbeat() == 0
    assert driver.group_or_none("h") is None


@pytest.mark.parametrize("surprise", ["base", "end", "order", "refused out of order"])
def test_an_unexpected_log_end_forgets_everything(surprise: str) -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    append = driver.held[0]
    report = {
        "base": lambda: driver.shard.appended(append.batch_id, 1, 2, driver.now),
        "end": lambda: driver.shard.appended(append.batch_id, 0, 2, driver.now),
        "order": lambda: driver.shard.appended(append.batch_id + 1, 0, 1, driver.now),
        "refused out of order": lambda: driver.shard.append_refused(append.batch_id + 1, 19, driver.now),
    }
    report[surprise]()
    driver.collect(driver.shard)
    assert errors(driver, token) == [16]
    assert driver.shard.needs_reload
    assert driver.shard.state is ShardState.UNLOADED


def test_news_from_before_a_reload_is_ignored() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1)
    stale = driver.held.pop()
    driver.shard.forget()
    driver.shard.appended(stale.batch_id, 0, 1, driver.now)
    driver.shard.append_refused(stale.batch_id, 19, driver.now)
    driver.shard.high_watermark(1, driver.now)
    assert driver.shard.state is ShardState.UNLOADED
    assert driver.shard.needs_reload


# -- loading


def test_a_loaded_shard_serves_when_its_whole_log_has_committed() -> None:
    log = encode([GroupPut(name, GroupMetadata("", 0, None, None, 1)) for name in "gh"])
    driver = Driver(log=log, loaded=False)
    shard = driver.shard
    shard.start_loading(3, driver.now)
    shard.load(log)
    shard.finish_loading(Now(driver.now.monotonic_ms + 70, 0), 2, 1)
    assert shard.state is ShardState.LOADING
    shard.high_watermark(2, Now(driver.now.monotonic_ms + 90, 0))
    assert shard.state is ShardState.ACTIVE
    assert (shard.metrics.load_time_ms, shard.metrics.records_loaded) == (90, 2)


def test_a_watermark_seen_while_reading_counts() -> None:
    shard = Driver(loaded=False).shard
    shard.start_loading(3)
    shard.high_watermark(2, Now(0, 0))
    shard.finish_loading(Now(0, 0), 2, 0)
    assert shard.state is ShardState.ACTIVE


def test_an_older_epoch_is_refused() -> None:
    shard = Driver(loaded=False).shard
    shard.start_loading(3)
    with pytest.raises(ValueError, match="older"):
        shard.start_loading(2)


def test_what_is_not_expected_while_not_loading_is_ignored() -> None:
    driver = Driver()
    driver.shard.load([(b"", b"")])
    driver.shard.finish_loading(driver.now, 5)
    driver.shard.load_marker(1, committed=True)
    assert driver.is_active()


# -- clients that go


def test_a_dropped_request_is_never_answered_but_still_happens() -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    driver.shard.drop(lambda each: each == token)
    driver.release()
    assert driver.answer(token) is None
    assert driver.offset("g") == 1


def test_an_answer_not_yet_taken_is_dropped_too() -> None:
    driver = Driver()
    request = commit_request("g", 3, "m", None, [("t", 0, 1, -1, "")])
    for token in (("a", 1), ("b", 1), ("a", 2)):
        driver.shard.handle(token, request, driver.now)
    driver.shard.drop(lambda each: each == ("a", 1))
    assert [token for token, _ in driver.shard.take_replies()] == [("b", 1), ("a", 2)]


def test_a_closed_connection_drops_all_its_requests() -> None:
    driver = Driver()
    driver.holds = True
    shard = driver.shard
    request = commit_request("g", -1, "", None, [("t", 0, 1, -1, "")])
    for token in (("a", 1), ("b", 1)):
        shard.handle(token, request, driver.now)
    shard.handle(("a", 2), commit_request("g", 3, "m", None, commit_rows(request)), driver.now)
    shard.drop(lambda token: token[0] == "a")  # type: ignore[index]
    append = shard.take_records()
    assert append is not None
    shard.appended(append.batch_id, 0, 2, driver.now)
    shard.high_watermark(2, driver.now)
    assert [token for token, _ in shard.take_replies()] == [("b", 1)]


# -- time


def test_a_late_turn_expels_nobody() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    driver.jump(25_000)  # we stood still for 15 s past the deadlines
    assert driver.state() == "Stable"
    assert driver.shard.metrics.late_turns == 1
    assert a.heartbeat() == 0
    driver.advance(499)
    assert b.member_id in driver.group().members
    driver.advance(9_500)
    assert list(driver.group().members) == [a.member_id]


def test_a_pending_id_gets_a_late_turn_back_as_well() -> None:
    driver = Driver()
    Client(driver, "a").ask_join()
    driver.jump(10_501)
    assert driver.group().pending_joins
    driver.advance(500)
    assert driver.group_or_none() is not None
    assert not driver.group().pending_joins


def test_a_turn_a_little_late_is_none_of_our_stalls() -> None:
    driver = Driver()
    stable_group(driver, Client(driver, "a"))
    driver.jump(10_500)
    assert driver.state() == "Empty"
    assert driver.shard.metrics.late_turns == 0


def test_commit_deadlines_are_not_moved_by_a_late_turn() -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    driver.jump(60_000)
    assert errors(driver, token) == [15]


def test_an_error_for_a_parked_sync_starts_the_session_anew() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    a.ask_join(), b.ask_join()
    a.joined(), b.joined()
    b.ask_sync()
    driver.advance(9_000)
    a.heartbeat()
    Client(driver, "c").join()
    assert b.sync_answer is not None
    assert b.sync_answer.error_code == 27
    assert driver.group().members[b.member_id].session.due_ms == driver.now.monotonic_ms + 10_000


def test_moving_a_timer_on_changes_one_number() -> None:
    timers, fired = Timers(), []
    members = [Timer(lambda now, n=n: fired.append(n)) for n in range(1_000)]
    for timer in members:
        timers.arm(timer, 100)
    for now in range(1, 90):
        for timer in members:
            timers.arm(timer, now + 100)
    assert timers.entries == 1_000
    assert timers.next_due_ms() == 189
    timers.arm(members[5], 50)  # sooner than it was
    assert timers.next_due_ms() == 50
    assert [timer.action(Now(0, 0)) for timer in timers.pop_due(60)] == [None]
    assert fired == [5]
    timers.arm(members[5], 70)
    members[5].cancel()
    assert timers.next_due_ms() == 189
    assert len(list(timers.pop_due(200))) == 999
    assert timers.next_due_ms() is None


# -- views


def test_group_status_tells_whom_a_rebalance_waits_for() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    driver.advance(1_000)
    status = driver.shard.coordinator.group_status("g", driver.now)
    assert status is not None
    assert (status.state, status.epoch, status.awaited_members, status.phase_ends_in_ms) == (
        GroupState.STABLE,
        2,
        (),
        None,
    )
    c = Client(driver, "c").join()
    pending = driver.answer(Client(driver, "d").ask_join()).member_id
    driver.advance(1_000)
    status = driver.shard.coordinator.group_status("g", driver.now)
    assert status is not None
    assert status.awaited_members == (a.member_id, b.member_id, pending)
    assert status.phase_ends_in_ms == 59_000
    assert [event.reason for event in status.rebalances] == ["member joined"] * 3
    assert status.rebalances[-1].member_id == c.member_id
    assert status.rebalances[-1].epoch == 2
    driver.leave("g", (pending, None))
    a.ask_join(), b.ask_join(reason="scaling")
    status = driver.shard.coordinator.group_status("g", driver.now)
    assert status is not None
    assert set(status.awaited_members) == {a.member_id, b.member_id, c.member_id}
    assert driver.shard.coordinator.group_status("missing", driver.now) is None


def test_the_history_is_bounded_and_gives_the_clients_reason() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    for n in range(30):
        a.ask_join(reason=f"why {n}" + "." * 300)
        a.joined()
        a.ask_sync({})
    history = driver.group().history
    assert len(history) == 20
    assert history[-1].reason.startswith("why 29")
    assert len(history[-1].reason) == 255


def test_metrics() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1), a.commit(2, topic="old")
    driver.commit_offset("h", 1)
    driver.delete_offsets("g", ("old", 0))
    driver.delete_group("h")
    driver.holds = True
    driver.commit_offset("k", 1)
    driver.append()
    driver.advance(40)
    driver.commit()
    of_groups, metrics = driver.shard.coordinator.metrics, driver.shard.metrics
    assert (of_groups.offset_commits, of_groups.offset_deletions, of_groups.group_deletions) == (4, 2, 1)
    assert (of_groups.rebalances_completed, of_groups.members_expired) == (1, 0)
    assert metrics.replication_wait_max_ms == 40
    assert metrics.appends == metrics.appends_committed > 0
    assert driver.shard.coordinator.group_counts() == {GroupState.STABLE: 1, GroupState.EMPTY: 1}
    assert driver.shard.coordinator.offset_count() == 2


def test_shards_are_told_apart_by_the_ids_they_are_given() -> None:
    ids = iter("xyz")
    shard = group_shard(CoordinatorConfig(), lambda: next(ids))
    shard.start_loading(0)
    shard.finish_loading(Now(0, 0), 0)
    driver = Driver()
    shard.handle(1, Client(driver, "c").join_request(), Now(0, 0))
    ((_, response),) = shard.take_replies()
    assert isinstance(response, JoinGroupResponse)
    assert response.member_id == "c-x"
