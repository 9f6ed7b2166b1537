"""Compaction: the records that it keeps, their offsets, and its times."""

import pytest

from actors.log.compaction import compact
from actors.log.files import REAL_WRITER
from actors.records.batch import iter_batches
from actors.records.building import build_batch
from actors.records.reading import iter_key_values
from tests.support.log_helpers import (
    COMPACT,
    NOW_MS,
    all_bytes,
    all_records,
    append,
    batch_bounds,
    clean,
    content,
    last_values,
    max_timestamp,
    offset_for_timestamp,
    open_log,
    put,
    values,
)
from tests.support.read_records import read_records

DAY = 86_400_000


def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"))
    put(log, (b"b", b"2"), (b"b", b"3"))
    assert clean(log)
    assert content(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (5, b"b", b"3")]
    assert log.log_end_offset == 6
    assert log.read(0, 1 << 20) == all_bytes(log), "a reader at a removed offset goes on with the next"
    put(log, (b"a", b"3"))
    assert clean(log)
    assert content(log) == [(3, b"c", b"1"), (5, b"b", b"3"), (6, b"a", b"3")]
    assert not clean(log), "nothing new"
    log.abandon()


def test_tombstones_stay_for_a_while(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    clean(log, NOW_MS)
    assert content(log) == [(1, b"b", b"1"), (2, b"a", None)]
    put(log, (b"x", b"1"))
    clean(log, NOW_MS + DAY - 1)
    assert (2, b"a", None) in content(log)
    log.close()
    log = open_log(tmp_path, clean=True, **COMPACT)
    put(log, (b"x", b"2"), (b"y", None))
    clean(log, NOW_MS + DAY)
    assert content(log) == [(1, b"b", b"1"), (4, b"x", b"2"), (5, b"y", None)]
    log.abandon()


def test_the_dirty_ratio_decides(tmp_path):
    log = open_log(tmp_path, min_cleanable_dirty_ratio="0.7", **COMPACT)
    for number in range(20):
        put(log, (b"key%d" % number, b"value"))
    log.flush()
    assert log.cleaning.dirty_ratio(NOW_MS) == 1.0
    plan = log.cleaning.plan(NOW_MS)
    log.cleaning.swap(compact(plan, REAL_WRITER), NOW_MS)
    assert log.cleaning.dirty_ratio(NOW_MS) == 0.0
    assert log.cleaning.plan(NOW_MS) is None
    for number in range(5):
        put(log, (b"new%d" % number, b"value"))
    log.flush()
    assert 0 < log.cleaning.dirty_ratio(NOW_MS) < 0.7
    assert log.cleaning.plan(NOW_MS) is None
    for number in range(50):
        put(log, (b"new%d" % number, b"value"))
    log.flush()
    assert log.cleaning.dirty_ratio(NOW_MS) > 0.7
    assert log.cleaning.plan(NOW_MS) is not None
    log.abandon()


def test_what_is_young_uncommitted_or_active_is_left_alone(tmp_path):
    log = open_log(tmp_path, min_compaction_lag_ms="1000", **COMPACT)
    for number in range(20):
        append(log, values(b"%d" % number), commit=False)
    log.flush()
    assert log.cleaning.plan(NOW_MS + 5000) is None, "nothing is committed"
    log.advance_high_watermark(10)
    assert log.cleaning.plan(NOW_MS + 999) is None, "too young"
    plan = log.cleaning.plan(NOW_MS + 1000)
    assert plan.end <= 10
    log.cleaning.swap(compact(plan, REAL_WRITER), NOW_MS)
    assert [offset for offset, _, _ in content(log)] == [plan.end - 1, *range(plan.end, 20)]
    log.abandon()


LAGGING = {"cleanup_policy": "compact", "max_compaction_lag_ms": "2000", "min_cleanable_dirty_ratio": "0.99"}


def test_a_compacted_segment_ends_at_the_longest_compaction_lag_when_something_is_appended(tmp_path):
    log = open_log(tmp_path, **LAGGING)
    put(log, (b"k", b"old"))
    put(log, (b"k", b"new"), now_ms=NOW_MS + 1999)
    assert len(log.segments) == 1
    put(log, (b"k", b"newest"), now_ms=NOW_MS + 2000)
    assert log.segments.bases() == (0, 2)
    log.abandon()


def test_a_superseded_value_outlives_no_compaction_lag_in_a_log_that_is_idle(tmp_path):
    log = open_log(tmp_path, **LAGGING)
    put(log, (b"k", b"old"), (b"k", b"new"))
    assert log.cleaning.plan(NOW_MS + 1999) is None
    assert log.cleaning.plan(NOW_MS + 2000) is None, "the segment ends; it is not flushed yet"
    log.flush()
    plan = log.cleaning.plan(NOW_MS + 2001)
    assert plan is not None
    log.cleaning.swap(compact(plan, REAL_WRITER), NOW_MS + 2001)
    assert content(log) == [(1, b"k", b"new")]
    log.abandon()


def mostly_clean(path):
    """A log whose compacted part is so large that the dirty ratio starts no compaction."""
    log = open_log(path, **LAGGING)
    put(log, *((b"%d" % number, b"v") for number in range(100)))
    clean(log)
    return log


def test_a_compaction_is_due_by_the_first_batch_of_a_segment_and_not_by_its_last(tmp_path):
    log = mostly_clean(tmp_path)
    put(log, (b"k", b"first"))
    put(log, (b"k", b"last"), now_ms=NOW_MS + 1000)
    log.roll()
    log.flush()
    assert log.cleaning.plan(NOW_MS + 2000) is None
    assert log.cleaning.plan(NOW_MS + 2001) is not None, "the last record has 1 s left"
    log.abandon()


def test_records_without_a_timestamp_wait_for_their_compaction_since_they_were_written(tmp_path):
    log = mostly_clean(tmp_path)
    append(log, values(b"old", b"new", timestamp_ms=-1))
    written = log.segments.active.path
    log.roll()
    log.flush()
    written_ms = int(written.stat().st_mtime * 1000)
    assert log.cleaning.plan(written_ms + 2000) is None
    assert log.cleaning.plan(written_ms + 2001) is not None
    log.abandon()


@pytest.mark.parametrize("policy", ["delete", ""])
def test_only_a_compacted_segment_ends_at_the_longest_compaction_lag(tmp_path, policy):
    log = open_log(tmp_path, cleanup_policy=policy, max_compaction_lag_ms="2000")
    put(log, (b"k", b"v"))
    assert not log.roll_if_due(NOW_MS + 2000)
    log.abandon()


def test_a_log_that_keeps_everything_is_not_compacted(tmp_path):
    log = open_log(tmp_path, cleanup_policy="")
    put(log, (b"a", b"1"), (b"a", b"2"))
    assert log.cleaning.plan(NOW_MS + DAY, force=True) is None
    log.abandon()


def test_a_topic_that_only_deletes_is_not_compacted(tmp_path):
    log = open_log(tmp_path)
    put(log, (b"a", b"1"), (b"a", b"2"))
    assert log.cleaning.plan(NOW_MS, force=True) is None
    log.abandon()


def test_small_batches_are_merged_and_offsets_kept(tmp_path):
    log = open_log(tmp_path, cleanup_policy="compact")
    for number in range(2000):
        append(log, build_batch([(b"key%d" % (number % 700), b"%d" % number, [("h", b"1")], NOW_MS + number)]))
    before = {each.key: (each.offset, each.value, each.timestamp, tuple(each.headers)) for each in all_records(log)}
    clean(log)
    after = {each.key: (each.offset, each.value, each.timestamp, tuple(each.headers)) for each in all_records(log)}
    assert after == before
    assert len(batch_bounds(log)) <= 3
    assert max_timestamp(log) == (1999, NOW_MS + 1999)
    for offset in range(1300, 2000):
        assert next(each.offset for each in read_records(log.read(offset, 1)) if each.offset >= offset) == offset
    log.abandon()


def test_epochs_and_codecs_are_not_mixed(tmp_path):
    log = open_log(tmp_path, cleanup_policy="compact")
    for number in range(12):
        append(log, values(b"v", key=b"%d" % number, compression=("none", "lz4")[number // 2 % 2]), epoch=number // 6)
    clean(log)
    headers = [header for _, _, header in iter_batches(all_bytes(log))]
    assert [(each.leader_epoch, each.codec, each.record_count) for each in headers] == [
        (0, 0, 2),
        (0, 3, 2),
        (0, 0, 2),
        (1, 3, 2),
        (1, 0, 2),
        (1, 3, 2),
    ]
    assert log.end_offset_for_epoch(0) == (0, 6)
    log.abandon()


def test_batches_of_producers_keep_their_identity(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    for number in range(6):
        append(
            log,
            build_batch(
                [
                    (b"a", b"%d" % number, None, NOW_MS),
                    (b"b%d" % number, b"x", None, NOW_MS),
                    (b"c", b"y", None, NOW_MS),
                ],
                producer_id=4,
                producer_epoch=1,
                base_sequence=number * 3,
            ),
        )
    append(log, values(b"end"))
    log.append_as_leader(values(b"marker", is_control=True), 0, NOW_MS, internal=True)
    log.advance_high_watermark(log.log_end_offset)
    clean(log)
    headers = [header for _, _, header in iter_batches(all_bytes(log))]
    ours = [each for each in headers if each.producer_id == 4]
    assert [(each.base_offset, each.last_offset, each.base_sequence) for each in ours] == [
        (number * 3, number * 3 + 2, number * 3) for number in range(6)
    ]
    assert [each.record_count for each in ours] == [1, 1, 1, 1, 1, 3]
    assert headers[-1].is_control
    log.abandon()
    log = open_log(tmp_path, **COMPACT)
    repeat = build_batch(
        [(b"a", b"5", None, NOW_MS), (b"b5", b"x", None, NOW_MS), (b"c", b"y", None, NOW_MS)],
        producer_id=4,
        producer_epoch=1,
        base_sequence=15,
    )
    assert log.append_as_leader(repeat, 0, NOW_MS).duplicate
    log.abandon()


def sent(key, sequence, codec="none"):
    """A producer's batch of one record."""
    return build_batch(
        [(key, b"v", None, NOW_MS)], compression=codec, producer_id=4, producer_epoch=1, base_sequence=sequence
    )


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_replica_of_a_compacted_log_knows_each_producers_last_sequence(tmp_path, codec):
    log = open_log(tmp_path / "leader", **COMPACT)
    append(log, sent(b"a", 0, codec))
    append(log, sent(b"b", 1, codec))
    put(log, (b"b", b"2"))
    clean(log)
    put(log, (b"c", b"1"))
    clean(log)
    kept = [(0, b"a", b"v"), (2, b"b", b"2"), (3, b"c", b"1")]
    assert content(log) == kept
    assert list(iter_key_values(all_bytes(log))) == [(key, value) for _, key, value in kept]
    data, end = log.read_with_end(0, 1 << 20)
    replica = open_log(tmp_path / "replica", **COMPACT)
    replica.append_as_follower(data, NOW_MS)
    assert (content(replica), replica.log_end_offset) == (kept, end)
    replica.abandon()
    replica = open_log(tmp_path / "replica", **COMPACT)
    assert replica.append_as_leader(sent(b"b", 1, codec), 1, NOW_MS).duplicate
    assert append(replica, sent(b"d", 2), epoch=1) == end
    assert offset_for_timestamp(replica, NOW_MS) == (0, NOW_MS)
    assert max_timestamp(replica) == (0, NOW_MS)
    for each in (log, replica):
        each.abandon()


@pytest.mark.parametrize("gone", ["it has sent more", "it is forgotten"])
def test_an_empty_batch_goes_when_its_producer_needs_it_no_more(tmp_path, gone):
    log = open_log(tmp_path, producer_id_expiration_ms="1000", **COMPACT)
    append(log, sent(b"a", 0))
    put(log, (b"a", b"2"))
    clean(log)
    assert batch_bounds(log) == [(0, 0), (1, 1)]
    if gone == "it has sent more":
        append(log, sent(b"b", 1))
    else:
        log.retention.apply(NOW_MS + 1000)
        put(log, (b"b", b"1"))
    clean(log)
    assert batch_bounds(log)[0][0] == 1
    assert [offset for offset, _, _ in content(log)] == [1, 2]
    log.abandon()


def test_log_append_time_survives(tmp_path):
    log = open_log(tmp_path, message_timestamp_type="LogAppendTime", **COMPACT)
    append(log, build_batch([(b"a", b"1", None, 5), (b"b", b"1", None, 6)]), now_ms=NOW_MS + 1)
    append(log, build_batch([(b"a", b"2", None, 7)]), now_ms=NOW_MS + 2)
    clean(log, NOW_MS + 3)
    found = [(each.offset, each.timestamp) for each in all_records(log)]
    assert found == [(1, NOW_MS + 1), (2, NOW_MS + 2)]
    log.abandon()


def test_memory_for_keys_bounds_one_round_not_the_outcome(tmp_path):
    log = open_log(tmp_path, **COMPACT)
    for number in range(60):
        put(log, (b"key%d" % (number % 25), b"%d" % number))
    expected = last_values(content(log))
    rounds = 0
    while clean(log, max_keys=10):
        rounds += 1
        assert last_values(content(log)) == expected
        assert rounds < 50
    assert rounds > 1
    log.abandon()


def test_records_before_the_log_start_go(tmp_path):
    log = open_log(tmp_path, cleanup_policy="compact,delete")
    for number in range(10):
        put(log, (b"key%d" % number, b"v"))
    log.retention.delete_before(4)
    clean(log)
    assert [offset for offset, _, _ in content(log)] == [4, 5, 6, 7, 8, 9]
    log.abandon()


def test_a_log_of_nothing_but_old_tombstones_becomes_empty(tmp_path):
    log = open_log(tmp_path, delete_retention_ms="0", **COMPACT)
    put(log, (b"a", None))
    clean(log)
    put(log, (b"b", None))
    clean(log, NOW_MS + 1)
    put(log, (b"b", None))
    clean(log, NOW_MS + 2)
    assert [offset for offset, _, _ in content(log)] == [2]
    log.close()
    log = open_log(tmp_path, clean=True, **COMPACT)
    assert log.log_end_offset == 3
    log.abandon()


@pytest.mark.parametrize("far", [3_000_000_000, 5_000_000_000])
def test_offsets_may_lie_further_apart_than_a_segment_reaches(tmp_path, far):
    log = open_log(tmp_path, **COMPACT)
    put(log, (b"a", b"1"))
    for number, pair in enumerate([(b"a", b"2"), (b"b", b"1"), (b"c", b"1")]):
        batch = build_batch([(*pair, None, NOW_MS)], base_offset=far + number, leader_epoch=0)
        log.append_as_follower(batch, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    assert clean(log)
    kept = [(far, b"a", b"2"), (far + 1, b"b", b"1"), (far + 2, b"c", b"1")]
    assert content(log) == kept
    put(log, (b"c", b"2"))
    assert clean(log)
    kept[-1] = (far + 3, b"c", b"2")
    log.abandon()
    for path in tmp_path.glob("*index"):
        path.unlink()
    log = open_log(tmp_path, **COMPACT)
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (0, far + 4, kept)
    log.abandon()
