"""Lag in seconds on replayed traces, in virtual time: within one sampling interval of the truth."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from actors.links.reading import PartitionRow
from actors.monitor.lag import BATCHES_MAX, RECORDS_MAX, LagTable
from actors.monitor.looks import estimate_of
from actors.monitor.partitions import Partitions
from actors.monitor.timeline import SAMPLES_MAX, Estimate, Timeline
from actors.records.batch import HEADER, BatchHeader

INTERVAL_MS = 5_000
BEGIN_MS = 1_700_000_000_000
BATCH_RECORDS = 40


@dataclass
class Trace:
    """The trace of a partition: the time of each record, and the commits of the group."""

    appended: list[int]
    """The timestamp of each record, by offset."""
    commits: list[tuple[int, int]] = field(default_factory=list)
    """(when, offset), by time."""

    def end_at(self, now_ms: int) -> int:
        return bisect_right(self.appended, now_ms)

    def committed_at(self, now_ms: int) -> int:
        return max((offset for at, offset in self.commits if at <= now_ms), default=0)

    def true_seconds(self, now_ms: int) -> float:
        committed = self.committed_at(now_ms)
        return 0.0 if committed >= self.end_at(now_ms) else (now_ms - self.appended[committed]) / 1000

    def head_of(self, offset: int, now_ms: int) -> bytes:
        """The header of its batch."""
        base = offset // BATCH_RECORDS * BATCH_RECORDS
        last = min(base + BATCH_RECORDS, self.end_at(now_ms)) - 1
        first_ms, newest_ms = self.appended[base], self.appended[last]
        return HEADER.pack(*BatchHeader(base, 100, 0, 2, 0, 0, last - base, first_ms, newest_ms, -1, -1, -1, 1))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Bursts and silences of any length, and a group that reads some of it, in steps."""
    gaps = st.one_of(st.integers(0, 20), st.integers(0, 3_000), st.integers(0, 400_000))
    appended, now = [], BEGIN_MS
    for gap, count in draw(st.lists(st.tuples(gaps, st.integers(1, 400)), min_size=1, max_size=40)):
        now += gap
        appended += [now] * count
    commits, offset, at = [], 0, BEGIN_MS
    for pause, share in draw(st.lists(st.tuples(st.integers(0, 120_000), st.floats(0, 1)), max_size=40)):
        at += pause
        offset += int((bisect_right(appended, at) - offset) * share)
        commits.append((at, offset))
    return Trace(appended, commits)


def look(trace: Trace, now_ms: int, partitions: Partitions, table: LagTable) -> float | None:
    """One look, as a Monitor does it. Batches and records are looked at where the table wants that."""
    end = trace.end_at(now_ms)
    newest = trace.appended[end - 1] if end else -1
    partitions.seen("orders", b"1", [PartitionRow(0, 0, end, newest, 0)], now_ms)
    table.begin()
    committed = trace.committed_at(now_ms)
    lag = table.of("orders", 0, committed, now_ms)
    table.estimated([(place, estimate_of(trace.head_of(place[2], now_ms), place[2])) for place in table.wanted()])
    table.found([(place, trace.appended[place[2]]) for place in table.wanted_records()])
    lag = table.of("orders", 0, committed, now_ms)
    partitions.forget_records({("orders", 0): committed})
    assert lag.records == end - committed
    return lag.seconds


@given(traces(), st.integers(0, 100_000))
@example(Trace([BEGIN_MS] * 100 + [BEGIN_MS + 3_600_000] * 100, [(BEGIN_MS + 3_600_000, 101)]), 0)
def test_it_is_within_one_interval_of_the_truth_at_each_look(trace: Trace, begins_after: int) -> None:
    partitions = Partitions()
    table = LagTable(partitions, INTERVAL_MS)
    last = max([trace.appended[-1], *(at for at, _ in trace.commits)])
    for now in range(BEGIN_MS + begins_after, last + 4 * INTERVAL_MS, INTERVAL_MS):
        seconds = look(trace, now, partitions, table)
        assert seconds is not None
        assert abs(seconds - trace.true_seconds(now)) <= INTERVAL_MS / 1000


@given(traces())
def test_without_looking_at_records_it_is_within_one_interval_or_not_known(trace: Trace) -> None:
    partitions = Partitions()
    table = LagTable(partitions, INTERVAL_MS)
    for now in range(BEGIN_MS, trace.appended[-1] + 2 * INTERVAL_MS, INTERVAL_MS):
        end = trace.end_at(now)
        newest = trace.appended[end - 1] if end else -1
        partitions.seen("orders", b"1", [PartitionRow(0, 0, end, newest, 0)], now)
        seconds = table.of("orders", 0, trace.committed_at(now), now).seconds
        assert seconds is None or abs(seconds - trace.true_seconds(now)) <= INTERVAL_MS / 1000


def test_records_are_looked_at_only_where_the_growth_of_the_log_does_not_tell() -> None:
    partitions = Partitions()
    table = LagTable(partitions, INTERVAL_MS)
    for number in range(100):
        now = BEGIN_MS + number * INTERVAL_MS
        partitions.seen("orders", b"1", [PartitionRow(0, 0, (number + 1) * 10, now - 1, 0)], now)
        table.begin()
        table.of("orders", 0, number * 10, now)
        assert table.wanted() == ([("orders", 0, 0)] if number == 0 else []), "only what came before the first look"
        table.estimated([(place, Estimate(BEGIN_MS - 1, 0)) for place in table.wanted()])


def test_a_record_that_cannot_be_had_is_not_asked_for_again_and_again() -> None:
    partitions = Partitions()
    table = LagTable(partitions, INTERVAL_MS)
    asked = 0
    for number in range(24):
        partitions.seen("orders", b"1", [PartitionRow(0, 0, 10, BEGIN_MS, 0)], BEGIN_MS + number * INTERVAL_MS)
        table.begin()
        assert table.of("orders", 0, 5, BEGIN_MS + number * INTERVAL_MS).seconds is None
        asked += len(table.wanted())
        table.estimated([(place, None) for place in table.wanted()])
    assert asked == 2


def of_many(table: LagTable, partitions: Partitions, count: int) -> int:
    """The number of partitions whose lag in seconds is known. The group has read nothing of any."""
    rows = [PartitionRow(number, 0, 10, BEGIN_MS, 0) for number in range(count)]
    partitions.seen("orders", b"1", rows, BEGIN_MS)
    return sum(table.of("orders", number, 0, BEGIN_MS).seconds is not None for number in range(count))


def test_a_monitor_that_has_just_begun_knows_ten_thousand_partitions_after_five_looks() -> None:
    table = LagTable(partitions := Partitions(), INTERVAL_MS)
    known = []
    for _ in range(5):
        table.begin()
        of_many(table, partitions, 10_000)
        table.estimated([(place, Estimate(BEGIN_MS, INTERVAL_MS)) for place in table.wanted()])
        known.append(of_many(table, partitions, 10_000))
    assert known == [BATCHES_MAX * look for look in range(1, 6)]


def test_a_batch_of_records_of_very_different_ages_is_looked_into_and_keeps_nobody_waiting() -> None:
    table = LagTable(partitions := Partitions(), INTERVAL_MS)
    count = BATCHES_MAX + 100
    table.begin()
    of_many(table, partitions, count)
    assert len(table.wanted()) == BATCHES_MAX
    table.estimated([(place, Estimate(BEGIN_MS, INTERVAL_MS + 1)) for place in table.wanted()])
    assert of_many(table, partitions, count) == 0
    assert len(table.wanted()) == 100, "those whose batches were not looked at yet"
    assert len(table.wanted_records()) == RECORDS_MAX
    table.found([(place, BEGIN_MS - 9) for place in table.wanted_records()])
    assert of_many(table, partitions, count) == RECORDS_MAX
    table.begin()
    assert of_many(table, partitions, count) == RECORDS_MAX
    assert (len(table.wanted()), len(table.wanted_records())) == (100, RECORDS_MAX), "and the next ones"


def test_what_is_not_known_is_none_and_never_zero() -> None:
    table = LagTable(partitions := Partitions(), INTERVAL_MS)
    assert table.of("orders", 0, 5, BEGIN_MS) == (None, None)
    partitions.seen("orders", b"1", [PartitionRow(0, 0, 10, BEGIN_MS, 0)], BEGIN_MS)
    assert table.of("orders", 0, 5, BEGIN_MS) == (5, None)
    assert table.of("orders", 0, 10, BEGIN_MS) == (0, 0.0)
    assert table.of("orders", 0, 12, BEGIN_MS) == (0, 0.0), "a commit may be newer than what was seen of the log"
    partitions.seen("empty", b"2", [PartitionRow(0, 10, 10, -1, 0)], BEGIN_MS)
    assert table.of("empty", 0, 4, BEGIN_MS) == (0, 0.0), "retention has taken all that was unread"


def test_timestamps_that_do_not_follow_the_clock_count_as_they_are() -> None:
    """A load of last year's records: their age is a year, whenever they came."""
    timeline = Timeline()
    year = 365 * 86_400_000
    timeline.seen(100, BEGIN_MS - year, BEGIN_MS)
    timeline.seen(200, BEGIN_MS - year + 1_000, BEGIN_MS + INTERVAL_MS)
    found = timeline.when(150)
    assert found is not None
    assert found.at_ms == BEGIN_MS - year + round(0.51 * 1_000)
    assert found.error_ms == 1_000


def test_a_log_that_was_cut_is_looked_at_anew() -> None:
    timeline = Timeline()
    timeline.seen(100, BEGIN_MS, BEGIN_MS)
    timeline.seen(200, BEGIN_MS + 900, BEGIN_MS + 1_000)
    timeline.seen(50, BEGIN_MS, BEGIN_MS + 2_000)
    assert timeline.end == 50
    assert timeline.when(20) is None


@given(st.integers(SAMPLES_MAX, 1_000))
def test_only_so_many_samples_are_kept_and_the_newest_are_the_finest(looks: int) -> None:
    timeline = Timeline()
    for number in range(looks):
        timeline.seen((number + 1) * 10, BEGIN_MS + number * 1_000, BEGIN_MS + number * 1_000)
    assert len(timeline) <= SAMPLES_MAX
    assert timeline.when(15) is not None, "as far back as ever, if less exactly"
    newest = timeline.when(looks * 10 - 5)
    assert newest is not None
    assert newest.error_ms <= 1_000


def test_what_all_have_read_is_forgotten() -> None:
    timeline = Timeline()
    for number in range(50):
        timeline.seen((number + 1) * 10, BEGIN_MS + number * 1_000, BEGIN_MS + number * 1_000)
    before = timeline.when(405)
    timeline.forget_before(405)
    assert timeline.when(405) == before
    assert len(timeline) < 15
