"""Writes that have not committed: who is told what, and when."""

from __future__ import annotations

from actors.broker.beside.writes import Write, Writes
from actors.wire.errors import ErrorCode


class Asked:
    """Writes, and what those who wait for them were told."""

    def __init__(self) -> None:
        self.writes = Writes()
        self.told: list[tuple[str, int, object]] = []

    def write(self, name: str, due_ms: int = 100) -> None:
        self.writes.add(
            Write([name], name.upper(), lambda code, answer: self.told.append((name, code, answer)), due_ms)
        )

    def append(self, next_offset: int) -> None:
        self.writes.appended(self.writes.take(), next_offset)

    def commit(self, watermark: int) -> list[object]:
        committed = []
        for write in self.writes.committed(watermark):
            committed += write.records
            write.finish(ErrorCode.NONE)
        return committed


def test_an_answer_leaves_when_the_watermark_has_passed_its_records() -> None:
    asked = Asked()
    asked.write("a")
    asked.write("b")
    asked.append(2)
    asked.write("c")
    asked.append(3)
    assert asked.commit(1) == []
    assert asked.told == []
    assert asked.commit(2) == ["a", "b"]
    assert asked.told == [("a", 0, "A"), ("b", 0, "B")]
    assert asked.commit(9) == ["c"]


def test_what_was_not_appended_does_not_commit() -> None:
    asked = Asked()
    asked.write("a")
    assert asked.commit(100) == []
    asked.writes.take()
    assert asked.commit(100) == []


def test_one_who_has_waited_too_long_is_told_so_once_and_his_records_may_still_commit() -> None:
    asked = Asked()
    asked.write("a", due_ms=100)
    asked.append(1)
    asked.write("b", due_ms=150)
    assert asked.writes.next_due_ms() == 100
    asked.writes.tell_late(120)
    assert asked.told == [("a", ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
    assert asked.writes.next_due_ms() == 150
    assert asked.commit(1) == ["a"]
    assert len(asked.told) == 1


def test_all_who_wait_are_told_when_everything_is_dropped() -> None:
    asked = Asked()
    asked.write("a")
    asked.append(1)
    asked.write("b")
    asked.writes.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert asked.told == [("a", 6, None), ("b", 6, None)]
    assert asked.commit(5) == []
    assert asked.writes.take() == []
    assert asked.writes.next_due_ms() is None
