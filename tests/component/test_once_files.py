"""The log of an effectively-once sink: which ranges are new, and what a folder that lost an entry says. No Spark."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.client.records import OffsetRange
from spark_bridge.batch import Batch
from spark_bridge.once import OnceFiles
from spark_bridge.written import Written

Span = tuple[int, int]


class Frame:
    """Stands for a DataFrame and its writer: a file for each save."""

    write = property(lambda self: self)

    def where(self, condition: Any) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        return self

    def save(self, path: str) -> None:
        Path(path).mkdir(parents=True)
        (Path(path) / "part-0").write_text("rows")


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conditions that choose records are nothing: there is no Spark that would know of columns."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", SimpleNamespace(functions=MagicMock()))


def batch(*spans: Span, topic_id: bytes = b"") -> Batch:
    return Batch(0, tuple(OffsetRange("t", 0, since, until, topic_id) for since, until in spans), frozenset)


def write(sink: OnceFiles, since: int, until: int, topic_id: bytes = b"") -> int:
    return sink.write(Frame(), batch((since, until), topic_id=topic_id))  # type: ignore[arg-type]


def test_what_was_jumped_over_and_comes_later_is_written(tmp_path: Path) -> None:
    """Offsets that were reset forwards and back again."""
    sink = OnceFiles(tmp_path)
    assert [write(sink, 0, 5), write(sink, 10, 15)] == [5, 5]
    assert write(sink, 3, 12) == 5
    assert write(sink, 0, 15) == 0
    assert sink.offsets() == {("t", 0): 15}


spans = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple)


@given(st.lists(spans, max_size=6), spans)
def test_exactly_what_is_not_written_is_new(before: list[Span], wanted: Span) -> None:
    there = Written()
    for since, until in before:
        there.add(("t", 0, since, until), b"")
    new = there.beyond(batch(wanted))
    offsets = [offset for _, _, since, until in new for offset in range(since, until)]
    written = {offset for span in before for offset in range(*span)}
    assert offsets == [offset for offset in range(*wanted) if offset not in written]


OLD, NEW = b"o" * 16, b"n" * 16


def test_records_of_a_topic_made_anew_were_taken_for_those_of_the_old_one(tmp_path: Path) -> None:
    sink = OnceFiles(tmp_path)
    assert write(sink, 0, 100, OLD) == 100
    assert write(sink, 0, 60, NEW) == 60
    assert write(OnceFiles(tmp_path), 0, 60, NEW) == 0
    assert write(OnceFiles(tmp_path), 0, 100, OLD) == 0
    assert OnceFiles(tmp_path).offsets() == {("t", 0): 60}


def test_entries_of_earlier_releases_name_no_topic_by_id(tmp_path: Path) -> None:
    """Such an entry is about the first topic that is known by the name: it was written for that one."""
    write(OnceFiles(tmp_path), 0, 50)
    (entry,) = (tmp_path / "_ranges").glob("*.json")
    said = json.loads(entry.read_text())
    del said["ids"]
    entry.write_text(json.dumps(said))
    assert OnceFiles(tmp_path).offsets() == {("t", 0): 50}
    assert write(OnceFiles(tmp_path), 0, 70, OLD) == 20
    assert write(OnceFiles(tmp_path), 0, 70, NEW) == 70
    assert write(OnceFiles(tmp_path), 0, 70) == 0, "and brokers that give no ids have the name alone"


def test_a_folder_that_lost_an_entry_says_so_and_is_not_written(tmp_path: Path) -> None:
    for number in range(3):
        write(OnceFiles(tmp_path), number, number + 1)
    lost = sorted((tmp_path / "_ranges").glob("*.json"))[1]
    lost.unlink()
    with pytest.raises(RuntimeError, match=rf"{lost} is missing, but a later entry exists"):
        write(OnceFiles(tmp_path), 3, 4)


def test_an_entry_is_read_once_by_a_writer_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = OnceFiles(tmp_path), OnceFiles(tmp_path)
    for number in range(20):
        write(sink, number, number + 1)
    write(other, 20, 25)
    looked: list[int] = []
    read, link = Path.read_text, os.link

    def read_text(path: Path) -> str:
        looked.append(int(path.stem))
        return read(path)

    def linked(draft: Path, path: Path) -> None:
        looked.append(int(path.stem))
        link(draft, path)

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(os, "link", linked)
    assert write(sink, 18, 27) == 2, "what the other wrote is known"
    # The last entry it has read, to see that the folder is the same; newer ones; its own, to see and to make it.
    assert looked == [18, 19, 20, 21, 21]


def test_a_folder_that_was_emptied_is_begun_anew(tmp_path: Path) -> None:
    sink = OnceFiles(tmp_path / "out")
    assert write(sink, 0, 5) == 5
    shutil.rmtree(tmp_path / "out")
    assert sink.offsets() == {}
    assert write(sink, 0, 3) == 3


def test_a_link_that_was_made_but_is_answered_with_exists_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems answer so when the request is sent again."""
    link = os.link

    def sent_twice(*paths: Path) -> None:
        link(*paths)
        link(*paths)

    monkeypatch.setattr(os, "link", sent_twice)
    sink = OnceFiles(tmp_path)
    assert write(sink, 0, 5) == 5
    (folder,) = (tmp_path / "data").iterdir()
    assert (folder / "part-0").exists()
    assert sink.offsets() == {("t", 0): 5}


def test_data_are_on_the_disk_before_their_entry_and_the_entry_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def note(handle: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "link", lambda *paths: (done.append("link"), link(*paths)))
    write(OnceFiles(tmp_path), 0, 1)
    assert "part-0" in done[: done.index("link")]
    assert "data" in done[: done.index("link")]
    assert done[-1] == "_ranges"
