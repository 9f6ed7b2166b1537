"""A member's output: the lines that are made of it, kept, given to the pool, and left when the member has ended."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from actors.links.member import Line
from actors.members.logs.capture import RingHandler, Tee, capture
from actors.members.logs.gathering import Source, Wanted, gather
from actors.members.logs.journal import Journal, MemberLine, advanced
from actors.members.logs.ring import Ring
from actors.members.member_link import MemberEndedError


class Clock:
    def __init__(self) -> None:
        self.ms = 1000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(clock: Clock) -> Ring:
    return Ring(clock)


def texts(ring: Ring) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in ring.read()]


# --- kept lines ---


def test_only_the_last_lines_are_kept_and_each_keeps_its_number(clock: Clock) -> None:
    ring = Ring(clock, lines_max=2)
    for text in ("a", "b", "c"):
        ring.add("stdout", text)
    assert ring.read() == (Line(2, 1000, "stdout", "b"), Line(3, 1000, "stdout", "c"))


def test_many_bytes_push_lines_out_however_few_there_are(clock: Clock) -> None:
    ring = Ring(clock, bytes_max=10)
    for text in ("ääää", "bb", "c"):
        ring.add("stdout", text)
    assert [line.text for line in ring.read()] == ["bb", "c"]


def test_a_long_line_loses_its_end_and_stays_text(clock: Clock) -> None:
    ring = Ring(clock, line_bytes_max=8)
    ring.add("stdout", "ä" * 5)
    assert [line.text for line in ring.read()] == ["ää…"], "a half of the third one is not shown"


def test_half_a_character_can_be_sent(ring: Ring) -> None:
    ring.add("stdout", "\ud83d")
    assert [line.text for line in ring.read()] == ["\\ud83d"]


def test_what_is_read_is_behind_a_number_not_older_and_not_too_much(clock: Clock, ring: Ring) -> None:
    for number in range(1, 7):
        clock.ms = number
        ring.add("stdout", str(number))
    assert [line.number for line in ring.read(after=4)] == [5, 6]
    assert [line.number for line in ring.read(tail=1)] == [6]
    assert [line.number for line in ring.read(since_ms=3, tail=5)] == [3, 4, 5, 6]
    assert ring.read(after=6) == ()


# --- lines ---


def test_what_is_printed_goes_where_it_went_and_is_kept_by_lines(ring: Ring) -> None:
    file = io.StringIO()
    tee = Tee(file, "stdout", ring)
    print("one", 2, file=tee)  # type: ignore[call-overload]
    tee.writelines(["three\nfo", "ur\n", "not yet"])
    assert file.getvalue() == "one 2\nthree\nfour\nnot yet"
    assert texts(ring) == [("stdout", "one 2"), ("stdout", "three"), ("stdout", "four")]


def test_all_else_of_a_stream_is_as_before(ring: Ring) -> None:
    with open("/dev/null", "w") as file:
        tee = Tee(file, "stdout", ring)
        assert tee.fileno() == file.fileno()
        assert tee.encoding == file.encoding


def test_what_cannot_be_written_is_not_kept(ring: Ring) -> None:
    file = io.StringIO()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        Tee(file, "stdout", ring).write("lost\n")
    assert texts(ring) == []


def test_a_bar_of_progress_is_its_last_state(ring: Ring) -> None:
    Tee(io.StringIO(), "stderr", ring).write("\r10%\r50%\r100%\n")
    assert texts(ring) == [("stderr", "100%")]


def test_text_without_line_breaks_does_not_grow_for_ever(clock: Clock) -> None:
    ring = Ring(clock, line_bytes_max=4)
    tee = Tee(io.StringIO(), "stdout", ring)
    for _ in range(10):
        tee.write("ab")
    assert len(ring.read()) >= 3


def test_the_lines_of_two_threads_do_not_mix(ring: Ring) -> None:
    tee = Tee(io.StringIO(), "stdout", ring)
    tee.write("mine ")
    other = threading.Thread(target=lambda: tee.write("theirs\n"))
    other.start()
    other.join()
    tee.write("too\n")
    assert texts(ring) == [("stdout", "theirs"), ("stdout", "mine too")]


@contextlib.contextmanager
def captured(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """This process as a member's: its output, which goes to these, is captured."""
    before = io.StringIO(), io.StringIO()
    handlers = list(logging.getLogger().handlers)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", before[0])
        patch.setattr(sys, "stderr", before[1])
        capture(ring)
        yield before
    logging.getLogger().handlers[:] = handlers


def test_output_error_and_log_of_a_process_are_kept_with_their_levels(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured(ring, monkeypatch) as streams:
        print("out")  # noqa: T201
        print("err", file=sys.stderr)  # noqa: T201
        try:
            raise KeyError("k")
        except KeyError:
            logging.getLogger("app").exception("it %s", "failed")
    assert [stream.getvalue() for stream in streams] == ["out\n", "err\n"]
    found = texts(ring)
    assert found[:4] == [
        ("stdout", "out"),
        ("stderr", "err"),
        ("ERROR", "app: it failed"),
        ("ERROR", "Traceback (most recent call last):"),
    ]
    assert found[-1] == ("ERROR", "KeyError: 'k'")


def test_a_log_call_with_wrong_arguments_raises_nothing(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    record = logging.LogRecord("app", logging.INFO, __file__, 1, "%d", ("no number",), None)
    RingHandler(ring).emit(record)
    assert texts(ring) == []


# --- the pool's knowledge ---


def line(number: int, text: str = "", wall_ms: int = 0) -> Line:
    return Line(number, wall_ms, "stdout", text)


def test_what_was_sent_is_kept_once_and_outlives_its_member(clock: Clock) -> None:
    journal = Journal(clock)
    journal.keep(0, 71, [line(1), line(2)])
    journal.keep(0, 71, [line(2), line(3)])
    journal.keep(0, 72, [line(1)])
    assert [(each.pid, each.number) for each in journal.read(0)] == [(71, 1), (71, 2), (71, 3), (72, 1)]
    assert journal.read(1) == []


def test_older_lines_that_are_sent_later_are_kept_too(clock: Clock) -> None:
    """Somebody had asked for the last line alone; then the member ended, and sent all."""
    journal = Journal(clock)
    journal.keep(0, 71, [line(3)])
    journal.keep(0, 71, [line(1), line(2), line(3)])
    assert sorted(each.number for each in journal.read()) == [1, 2, 3]


def test_a_pool_says_the_same_once(clock: Clock) -> None:
    journal = Journal(clock)
    for text in ("is silent", "is silent", "has died", "is silent"):
        journal.note(3, text)
    assert [(each.pid, each.number, each.level, each.text) for each in journal.read()] == [
        (0, 1000, "POOL", "is silent"),
        (0, 1001, "POOL", "has died"),
        (0, 1002, "POOL", "is silent"),
    ]


def test_what_a_later_process_of_the_pool_says_is_behind_every_cursor(clock: Clock) -> None:
    """A supervisor that was restarted counts anew."""
    before = Journal(clock)
    before.note(0, "begins")
    cursor = advanced({}, before.read())
    clock.ms += 500
    after = Journal(clock)
    after.note(0, "begins again")
    assert [each.text for each in gather([], after, Wanted(after=cursor))] == ["begins again"]


def test_a_journal_has_bounds(clock: Clock) -> None:
    journal = Journal(clock)
    journal.keep(0, 1, [line(number) for number in range(1, 1001)])
    assert [each.number for each in journal.read()] == list(range(501, 1001))
    journal.keep(0, 1, [line(number, "x" * 8192) for number in range(1001, 1101)])
    assert [each.number for each in journal.read()] == list(range(1093, 1101))


class Link:
    """A member's connection, with its answer; None: it gives none."""

    def __init__(self, answer: list[Line] | Exception | None) -> None:
        self.answer = answer
        self.asked: list[dict[str, int]] = []

    def read_lines(self, **wanted: int) -> Future[tuple[Line, ...]]:
        self.asked.append(wanted)
        future: Future[tuple[Line, ...]] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(tuple(self.answer))
        return future


def source(slot: int, answer: list[Line] | Exception | None) -> Source:
    return Source(slot, 70 + slot, Link(answer))  # type: ignore[arg-type]


def test_the_lines_of_all_members_are_in_the_order_of_their_times(clock: Clock) -> None:
    sources = [source(0, [line(1, "a", 10), line(2, "d", 40)]), source(1, [line(1, "b", 20), line(2, "c", 30)])]
    found = gather(sources, Journal(clock), Wanted())
    assert [(each.slot, each.text) for each in found] == [(0, "a"), (1, "b"), (1, "c"), (0, "d")]
    last = gather(sources, Journal(clock), Wanted(tail=2))
    assert [each.text for each in last] == ["c", "d"]
    one = gather(sources, Journal(clock), Wanted(slot=1))
    assert [each.text for each in one] == ["b", "c"]


def test_a_dead_members_lines_come_from_the_journal_and_a_living_ones_come_once(clock: Clock) -> None:
    journal = Journal(clock)
    journal.keep(0, 61, [line(9, "last words", 5)])
    journal.keep(0, 70, [line(1, "known", 10)])
    found = gather([source(0, [line(1, "known", 10), line(2, "new", 20)])], journal, Wanted())
    assert [(each.pid, each.text) for each in found] == [(61, "last words"), (70, "known"), (70, "new")]


def test_behind_a_cursor_there_is_only_what_is_new(clock: Clock) -> None:
    journal = Journal(clock)
    journal.note(0, "begins")
    sources = [source(0, [line(1, wall_ms=1), line(2, wall_ms=2)])]
    cursor = advanced({}, gather(sources, journal, Wanted()))
    assert cursor == {(0, 70): 2, (0, 0): 1000}
    assert gather(sources, journal, Wanted(after=cursor)) == []
    assert sources[0].link.asked[-1]["after"] == 2  # type: ignore[attr-defined]
    journal.note(0, "has died")
    assert [each.text for each in gather([], journal, Wanted(after=cursor))] == ["has died"]
    assert advanced(cursor, [MemberLine(0, 0, 70, 1, "stdout", "")]) == cursor, "an old line takes nothing back"


def test_who_does_not_answer_is_named_and_who_has_ended_is_not(clock: Clock) -> None:
    sources = [source(0, None), source(1, MemberEndedError("gone")), source(2, [line(1, "here", 10)])]
    found = gather(sources, Journal(clock), Wanted(), timeout_s=0)
    assert [(each.slot, each.level, each.text) for each in found] == [
        (2, "stdout", "here"),
        (0, "POOL", "the member with pid 70 does not say what it has written"),
    ]


@pytest.mark.parametrize("wanted", [Wanted(tail=0), Wanted(since_ms=-1)])
def test_what_cannot_be_wanted_is_said(wanted: Wanted) -> None:
    assert wanted.problem() is not None
