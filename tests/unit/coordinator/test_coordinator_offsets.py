"""Offsets: statements C-01 to C-24. (What the API layer says of unknown topics is tested with the handlers.)"""

from __future__ import annotations

import pytest

from actors.coordinator import (
    CoordinatorConfig,
    DeleteTopicOffsetsRequest,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from actors.coordinator.records import (
    GroupDeleted,
    OffsetAndMetadata,
    OffsetsDeleted,
    OffsetsPut,
    Record,
    decode,
    decode_offset_value,
    encode,
)
from tests.support.coordination import START_WALL_MS, Client, Driver, naive_replay, stable_group, subscription

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# Checked every minute, so that a test need not think about when the run is.
MINUTELY = CoordinatorConfig(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=MINUTE)


def error_of(driver: Driver, token: int) -> int:
    error: int = driver.answer(token).error_codes[0]
    return error


# -- who may commit


@pytest.mark.conformance("C-01")
def test_a_commit_without_generation_makes_a_simple_group() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 7)) == 0
    (listed,) = driver.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")
    assert driver.offset("g") == 7


def test_the_empty_group_id_is_legal_for_offsets() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("", 7)) == 0
    assert driver.offset("") == 7
    assert error_of(driver, driver.commit_offset(None, 7)) == 24
    assert driver.call(OffsetFetchRequest(None, None)).error_code == 24


@pytest.mark.conformance("C-02")
@pytest.mark.parametrize(("version", "error"), [(9, 69), (8, 22), (1, 22)])
def test_a_generation_for_a_missing_group(version: int, error: int) -> None:
    driver = Driver()
    token = driver.commit_offset("g", 1, generation=3, member_id="m", version=version)
    assert error_of(driver, token) == error
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-03")
@pytest.mark.parametrize("member_id", ["", "anybody"])
def test_a_commit_without_generation_into_an_empty_group(member_id: str) -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    assert error_of(driver, driver.commit_offset("g", 5, member_id=member_id)) == 0
    assert driver.offset("g") == 5


@pytest.mark.conformance("C-04")
def test_a_commit_without_generation_into_a_stable_group() -> None:
    driver = Driver()
    stable_group(driver, Client(driver, "a"))
    assert error_of(driver, driver.commit_offset("g", 5)) == 25


@pytest.mark.conformance("C-05")
def test_a_commit_while_preparing_extends_the_session() -> None:
    driver = Driver()
    a, b = stable_group(driver, Client(driver, "a"), Client(driver, "b"))
    b.ask_join(protocols=(("range", b"changed"),))
    assert driver.state() == "PreparingRebalance"
    driver.advance(9_999)
    assert a.commit(3) == 0
    assert driver.offset("g") == 3
    driver.advance(9_999)
    assert a.member_id in driver.group().members
    driver.advance(1)
    assert a.member_id not in driver.group().members


def test_a_commit_in_stable_extends_the_session() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.advance(9_999)
    assert a.commit() == 0
    driver.advance(9_999)
    assert driver.state() == "Stable"


@pytest.mark.conformance("C-06")
def test_commits_while_completing() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a"))
    old = a.generation
    a.ask_join(), a.joined()
    assert driver.state() == "CompletingRebalance"
    assert a.commit() == 27
    assert a.commit(generation=old) == 22


@pytest.mark.conformance("C-07")
def test_commits_refused_in_stable() -> None:
    driver = Driver()
    a, _ = stable_group(driver, Client(driver, "a"), Client(driver, "s", instance="i"))
    assert a.commit(generation=1) == 22
    assert a.commit(member_id="ghost") == 25
    assert a.commit(member_id="other", instance="i") == 82
    assert a.commit(instance="unknown") == 25
    assert a.commit(generation=-1) == 22


# -- what is stored


@pytest.mark.conformance("C-08")
def test_metadata_too_large_is_refused_for_its_partition_only() -> None:
    driver = Driver()
    offsets = [("t", 0, 1, -1, "m" * 4_097, -1), ("t", 1, 2, -1, "m" * 4_096, -1)]
    response = driver.call(OffsetCommitRequest("g", -1, "", None, offsets))
    assert response.error_codes == [12, 0]
    assert driver.shard.metrics.offset_commits == 1
    assert driver.fetch("g") == (FetchedOffset("t", 1, 2, -1, "m" * 4_096),)


@pytest.mark.parametrize(("metadata", "error"), [("😀" * 2_048, 0), ("😀" * 2_049, 12), ("é" * 4_096, 0)])
def test_metadata_is_measured_in_utf16_units(metadata: str, error: int) -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 1, metadata=metadata)) == error


def test_a_commit_of_which_nothing_remains_writes_nothing() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 1, metadata="m" * 4_097)) == 12
    assert driver.call(OffsetCommitRequest("g", -1, "", None, [])).error_codes == []
    assert driver.log == []
    assert driver.group_or_none() is None


def test_commit_timestamp() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, timestamp=77)
    driver.commit_offset("g", 2)
    stamps = [decode_offset_value(value or b"").commit_timestamp_ms for _, value in driver.log]
    assert stamps == [77, driver.now.wall_ms]


def test_null_metadata_is_empty() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, metadata=None)
    assert driver.fetch("g")[0].metadata == ""


# -- when it counts


@pytest.mark.conformance("C-10")
def test_an_offset_not_yet_replicated_is_not_seen() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.commit_offset("g", 2)
    driver.append()
    assert driver.answer(token) is None
    assert driver.offset("g") == 1
    driver.commit()
    assert error_of(driver, token) == 0
    assert driver.offset("g") == 2


@pytest.mark.conformance("C-11")
@pytest.mark.parametrize(("refusal", "error"), [(19, 15), (6, 16), (10, -1), (13, 14), (7, 15), (18, -1), (4, -1)])
def test_a_commit_the_log_refuses(refusal: int, error: int) -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    token = driver.commit_offset("g", 2)
    driver.refuse(refusal)
    assert error_of(driver, token) == error
    assert driver.offset("g") == 1


def test_a_refused_first_commit_leaves_no_group() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 1)
    assert driver.state() == "Empty"
    driver.refuse(19)
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-12")
def test_a_commit_not_replicated_in_time() -> None:
    driver = Driver()
    driver.holds = True
    token = driver.commit_offset("g", 1)
    driver.append()
    driver.advance(4_999)
    assert driver.answer(token) is None
    driver.advance(1)
    assert error_of(driver, token) == 15
    assert driver.offset("g") == -1
    driver.commit()  # the record stood all the time
    assert driver.offset("g") == 1


@pytest.mark.conformance("C-13")
def test_fetching_what_is_not_there() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    assert driver.fetch("g", ("orders", 1)) == (FetchedOffset("orders", 1, -1, -1, "", 0),)
    assert driver.fetch("missing", ("orders", 0)) == (FetchedOffset("orders", 0, -1, -1, "", 0),)
    assert driver.fetch("missing") == ()


def test_fetch_tells_epoch_and_metadata() -> None:
    driver = Driver()
    offsets = [("t", 0, 42, 5, "here", -1)]
    driver.call(OffsetCommitRequest("g", -1, "", None, offsets))
    assert driver.fetch("g") == (FetchedOffset("t", 0, 42, 5, "here", 0),)


# -- require-stable


def test_a_stable_fetch_waits_for_earlier_writes_of_its_group() -> None:
    driver = Driver()
    driver.commit_offset("g", 1), driver.commit_offset("h", 1)
    driver.holds = True
    driver.commit_offset("g", 2)
    fetch = OffsetFetchRequest("g", (("orders", 0),), require_stable=True)
    token = driver.ask(fetch)
    later = driver.commit_offset("g", 3)
    assert driver.answer(token) is None
    assert driver.fetch("h", ("orders", 0), stable=True)[0].offset == 1
    driver.append()
    driver.commit()
    assert driver.answer(token).offsets[0].offset == 2
    assert driver.answer(later) is None


def test_a_stable_fetch_survives_the_refusal_of_an_earlier_write() -> None:
    driver = Driver()
    driver.commit_offset("g", 1)
    driver.holds = True
    driver.commit_offset("g", 2)
    token = driver.ask(OffsetFetchRequest("g", None, require_stable=True))
    driver.refuse(19)
    assert driver.answer(token).offsets[0].offset == 1


def test_a_stable_fetch_gives_up_with_16() -> None:
    driver = Driver()
    driver.holds = True
    driver.commit_offset("g", 2)
    tokens = [driver.ask(OffsetFetchRequest("g", None, require_stable=True))]
    driver.append()
    driver.advance(5_000)
    tokens.append(driver.ask(OffsetFetchRequest("g", None, require_stable=True)))
    assert [driver.answer(token).error_code for token in tokens] == [16, 16]


# -- transactions, as a log that Kafka wrote may hold them


def with_transaction(*then: tuple[str, object]) -> Driver:
    """A shard whose log has an offset of 1, a pending offset of 2 of producer 7, and `then`."""
    driver = Driver(loaded=False)
    shard = driver.shard
    shard.start_loading(0)
    shard.load(put(1))
    shard.load_transactional(7, put(2))
    for what, value in then:
        if what == "plain":
            shard.load(put(value))
        else:
            shard.load_marker(7, committed=what == "commit")
    shard.finish_loading(driver.now, 0)
    return driver


def put(offset: object) -> list[Record]:
    assert isinstance(offset, int)
    return encode([OffsetsPut("g", [(("orders", 0), OffsetAndMetadata(offset, -1, "", START_WALL_MS))])])


@pytest.mark.conformance("C-14")
def test_a_pending_transactional_offset() -> None:
    driver = with_transaction()
    assert driver.fetch("g", ("orders", 0)) == (FetchedOffset("orders", 0, 1),)
    stable = (FetchedOffset("orders", 0, -1, -1, "", 88), FetchedOffset("orders", 1))
    assert driver.fetch("g", ("orders", 0), ("orders", 1), stable=True) == stable
    assert driver.fetch("g", stable=True) == stable[:1]


@pytest.mark.conformance("C-15")
@pytest.mark.parametrize(
    ("then", "offset"),
    [
        ([("commit", None)], 2),
        ([("abort", None)], 1),
        ([("plain", 3), ("commit", None)], 3),
        ([("plain", 3), ("abort", None)], 3),
        ([("commit", None), ("plain", 3)], 3),
    ],
)
def test_a_transaction_that_ends(then: list[tuple[str, object]], offset: int) -> None:
    driver = with_transaction(*then)
    assert driver.fetch("g", ("orders", 0), stable=True) == (FetchedOffset("orders", 0, offset),)


@pytest.mark.conformance("C-15")
def test_of_two_transactions_the_later_record_wins() -> None:
    for first, second in ((7, 8), (8, 7)):
        driver = Driver(loaded=False)
        driver.shard.start_loading(0)
        driver.shard.load_transactional(7, put(2))
        driver.shard.load_transactional(8, put(3))
        driver.shard.load_marker(first, committed=True)
        driver.shard.load_marker(second, committed=True)
        driver.shard.finish_loading(driver.now, 0)
        assert driver.offset("g") == 3


def test_an_open_transaction_keeps_its_group() -> None:
    driver = Driver(MINUTELY, loaded=False)
    driver.shard.start_loading(0)
    driver.shard.load_transactional(7, put(2))
    driver.shard.finish_loading(driver.now, 0)
    wait(driver, 30 * DAY)
    assert driver.state() == "Empty"
    driver.delete_group("g")
    assert driver.group_or_none() is None
    assert [decode(*record) for record in driver.log] == [OffsetsDeleted("g", [("orders", 0)]), GroupDeleted("g")]


# -- expiry


def emptied(driver: Driver) -> None:
    """A consumer group with an offset, Empty since now."""
    (a,) = stable_group(driver, Client(driver, "a"))
    a.commit(1), a.commit(2, topic="other")
    driver.leave("g", (a.member_id, None))
    assert driver.state() == "Empty"


def wait(driver: Driver, ms: int) -> None:
    """Let `ms` pass on the wall clock, then have expiry look."""
    driver.now = driver.now._replace(wall_ms=driver.now.wall_ms + ms - MINUTE)
    driver.advance(MINUTE)


@pytest.mark.conformance("C-16")
def test_an_empty_group_expires_after_seven_days() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    wait(driver, 7 * DAY - 1)
    assert driver.offset("g") == 1
    before = len(driver.log)
    driver.advance(MINUTE)
    changes = [decode(*record) for record in driver.log[before:]]
    assert changes[-1] == GroupDeleted("g")
    assert all(isinstance(change, OffsetsDeleted) for change in changes[:-1])
    assert len(changes) == 3
    assert driver.group_or_none() is None
    assert driver.shard.metrics.offset_expirations == 2
    assert driver.shard.metrics.group_expirations == 1


def test_expiry_looks_at_a_share_of_the_offsets_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million in one turn took over a second: the broker took the shard for dead and killed it."""
    monkeypatch.setattr("actors.coordinator.sweep.OFFSETS_A_TURN", 2)
    driver = Driver(MINUTELY)
    for name in ("a", "b", "c", "d"):
        driver.commit_offset(name, 7)
    wait(driver, 8 * DAY)
    assert len(driver.list_groups()) == 3
    driver.advance(1000)
    assert driver.list_groups() == ()


def test_expiry_runs_first_after_one_interval() -> None:
    driver = Driver()
    driver.commit_offset("g", 1, timestamp=0)
    driver.advance(599_999)
    assert driver.offset("g") == 1
    driver.advance(1)
    assert driver.offset("g") == -1


def kept_alive(driver: Driver, ms: int) -> Client:
    """A stable group subscribed to orders, with offsets of orders and gone that are `ms` old."""
    (a,) = stable_group(driver, Client(driver, "a", session_ms=MINUTE * 2))
    a.commit(1, topic="orders"), a.commit(2, topic="gone")
    wait(driver, ms)
    return a


@pytest.mark.conformance("C-17")
def test_a_subscribed_topic_never_expires() -> None:
    driver = Driver(MINUTELY)
    kept_alive(driver, 30 * DAY)
    assert driver.state() == "Stable"
    assert driver.offset("g", "orders") == 1


@pytest.mark.conformance("C-18")
def test_a_topic_no_longer_subscribed_expires() -> None:
    driver = Driver(MINUTELY)
    kept_alive(driver, 8 * DAY)
    assert [driver.offset("g", "gone"), driver.offset("g", "orders")] == [-1, 1]
    assert driver.state() == "Stable"


@pytest.mark.conformance("C-19")
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_expires_during_a_rebalance(state: str) -> None:
    driver = Driver(MINUTELY)
    a = Client(driver, "a", session_ms=10 * MINUTE, rebalance_ms=10 * MINUTE)
    b = Client(driver, "b", session_ms=10 * MINUTE, rebalance_ms=10 * MINUTE)
    stable_group(driver, a, b)
    a.commit(2, topic="gone")
    a.ask_join()
    if state == "CompletingRebalance":
        b.ask_join()
    assert driver.state() == state
    wait(driver, 30 * DAY)
    assert driver.state() == state
    assert driver.offset("g", "gone") == 2


def test_nothing_expires_where_topics_are_unknown_or_the_type_is_another() -> None:
    driver = Driver(MINUTELY)
    for group_id, kind in (("unreadable", "consumer"), ("connect", "connect")):
        client = Client(driver, "a", group_id=group_id, protocol_type=kind, protocols=(("x", b"\x00"),))
        client.session_ms = 2 * MINUTE
        (a,) = stable_group(driver, client)
        a.commit(1)
    wait(driver, 30 * DAY)
    assert [driver.offset("unreadable"), driver.offset("connect")] == [1, 1]


@pytest.mark.conformance("C-20")
def test_a_simple_group_loses_old_offsets_only() -> None:
    driver = Driver(MINUTELY)
    driver.commit_offset("g", 1, partition=0, timestamp=driver.now.wall_ms - 8 * DAY)
    driver.commit_offset("g", 2, partition=1)
    driver.advance(MINUTE)
    assert [driver.offset("g", partition=p) for p in (0, 1)] == [-1, 2]
    assert driver.state() == "Empty"


@pytest.mark.conformance("C-21")
def test_an_explicit_retention_overrides_the_seven_days() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    token = driver.commit_offset("g", 9, version=2, retention=MINUTE)
    assert error_of(driver, token) == 0
    wait(driver, 2 * MINUTE)
    assert driver.offset("g") == -1
    assert driver.offset("g", "other") == 2


def test_a_retention_beyond_all_time() -> None:
    driver = Driver()
    assert error_of(driver, driver.commit_offset("g", 9, version=2, retention=2**63 - 1)) == 0
    assert decode_offset_value(driver.log[-1].value or b"").expire_timestamp_ms == 2**63 - 1


@pytest.mark.conformance("C-22")
def test_an_empty_group_without_offsets_goes_at_the_next_run() -> None:
    driver = Driver(MINUTELY)
    (a,) = stable_group(driver, Client(driver, "a"))
    driver.leave("g", (a.member_id, None))
    driver.advance(MINUTE)
    assert driver.group_or_none() is None
    assert decode(*driver.log[-1]) == GroupDeleted("g")


def test_a_group_that_is_being_joined_does_not_expire() -> None:
    driver = Driver(MINUTELY)
    Client(driver, "a", session_ms=2 * MINUTE).ask_join()
    driver.advance(MINUTE)
    assert driver.state() == "Empty"


def test_a_refused_expiry_is_tried_again() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    driver.holds = True
    wait(driver, 8 * DAY)
    assert driver.state() == "Dead"
    driver.refuse(19)
    assert driver.state() == "Empty"
    assert driver.offset("g") == 1
    driver.holds = False
    driver.advance(MINUTE)
    assert driver.group_or_none() is None


@pytest.mark.conformance("C-23")
def test_offsets_of_a_deleted_topic_go_from_all_groups() -> None:
    driver = Driver()
    (a,) = stable_group(driver, Client(driver, "a", protocols=(("range", subscription("gone")),)))
    a.commit(1, topic="gone"), a.commit(2, topic="kept")
    driver.commit_offset("simple", 3, topic="gone")
    before = len(driver.log)
    assert driver.call(DeleteTopicOffsetsRequest(frozenset({"gone"}))).error_code == 0
    said = [decode(*record) for record in driver.log[before:]]
    assert [change for change in said if isinstance(change, OffsetsDeleted)] == [
        OffsetsDeleted("g", [("gone", 0)]),
        OffsetsDeleted("simple", [("gone", 0)]),
    ]
    assert [driver.offset("g", "gone"), driver.offset("simple", "gone"), driver.offset("g", "kept")] == [-1, -1, 2]
    assert driver.call(DeleteTopicOffsetsRequest(frozenset({"gone"}))).error_code == 0
    assert len(driver.log) == before + len(said)


def topic_gone(driver: Driver) -> int:
    return driver.ask(DeleteTopicOffsetsRequest(frozenset({"gone"})))


def with_offsets_of_a_topic(groups: int, **config: int) -> Driver:
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, **config))
    for n in range(groups):
        driver.commit_offset(f"g{n}", 7, topic="gone"), driver.commit_offset(f"g{n}", 8, topic="kept")
    return driver


def test_a_topics_deletion_looks_at_a_share_of_the_offsets_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million at once took a second: the broker took the shard for dead and killed it."""
    monkeypatch.setattr("actors.coordinator.sweep.OFFSETS_A_TURN", 2)
    driver = with_offsets_of_a_topic(4)
    token = topic_gone(driver)
    assert driver.answer(token) is None
    left = [n for n in range(4) if driver.offset(f"g{n}", "gone") == 7]
    assert len(left) == 3
    driver.advance(100)
    assert driver.answer(token).error_code == 0
    assert [driver.offset(f"g{n}", "gone") for n in range(4)] == [-1] * 4
    assert [driver.offset(f"g{n}", "kept") for n in range(4)] == [8] * 4
    assert driver.shard.metrics.offset_deletions == 4


def test_a_new_topic_of_the_same_name_keeps_what_is_committed_while_the_old_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.coordinator.sweep.OFFSETS_A_TURN", 1)
    driver = with_offsets_of_a_topic(3)
    token = topic_gone(driver)
    driver.commit_offset("g2", 1, topic="gone")
    driver.commit_offset("new", 2, topic="gone")
    driver.advance(100)
    assert driver.answer(token).error_code == 0
    assert [driver.offset(group, "gone") for group in ("g0", "g1", "g2", "new")] == [-1, -1, 1, 2]
    loaded = naive_replay(driver.log).get("g2")
    assert loaded is not None
    assert loaded.offsets["gone", 0].offset == 1


def test_offsets_of_a_deleted_topic_that_are_on_their_way_go_as_well() -> None:
    driver = with_offsets_of_a_topic(1)
    driver.holds = True
    driver.commit_offset("g0", 9, topic="gone"), driver.commit_offset("first", 9, topic="gone")
    token = topic_gone(driver)
    driver.holds = False
    driver.release()
    driver.turn()
    assert driver.answer(token).error_code == 0
    assert [driver.offset("g0", "gone"), driver.offset("first", "gone")] == [-1, -1]
    assert [driver.state("first"), driver.fetch("first")] == ["Empty", ()]


def test_the_tombstones_of_a_large_group_are_spread_over_appends_the_log_takes() -> None:
    """One append of all of them is larger than max.message.bytes: refused, and the offsets stayed for ever."""
    driver = Driver(CoordinatorConfig(group_initial_rebalance_delay_ms=0, max_message_bytes=2_000))
    for partition in range(50):
        driver.commit_offset("g", 7, topic="gone", partition=partition)
    driver.holds = True
    token = topic_gone(driver)
    sizes = [sum(24 + len(key) + len(value or b"") for key, value in append.records) for append in driver.held]
    assert len(sizes) > 1
    assert max(sizes) + 61 <= 2_000
    driver.holds = False
    driver.release()
    assert driver.answer(token).error_code == 0
    assert driver.fetch("g") == ()


def test_a_refused_deletion_of_a_topics_offsets_is_answered_once_all_is_decided() -> None:
    driver = with_offsets_of_a_topic(2)
    driver.holds = True
    token = topic_gone(driver)
    driver.refuse(19)
    assert driver.answer(token).error_code != 0
    assert driver.offset("g0", "gone") == 7


def test_a_shard_that_is_unloaded_while_a_topic_goes_answers_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.sweep.OFFSETS_A_TURN", 1)
    driver = with_offsets_of_a_topic(3)
    token = topic_gone(driver)
    old = driver.fail_over()
    assert driver.answer(token).error_code == 16
    assert old.next_deadline() is None


@pytest.mark.conformance("C-24")
def test_an_admin_commit_does_not_restart_the_clock() -> None:
    driver = Driver(MINUTELY)
    emptied(driver)
    wait(driver, 7 * DAY - HOUR)
    assert error_of(driver, driver.commit_offset("g", 9)) == 0
    wait(driver, 2 * HOUR)
    assert driver.group_or_none() is None
    assert driver.offset("g") == -1
