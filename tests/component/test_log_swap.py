"""The swap of a compaction's result, interrupted at each step and refused by the disk."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest

from actors.log import swap
from actors.log.compaction import cleaned, compact
from actors.log.errors import StorageError
from actors.log.files import REAL_WRITER, remove_files
from actors.log.segment import Segment
from tests.support.log_helpers import COMPACT, NOW_MS, FullDisk, append, content, open_log, put, values

# -- the swap


class Crash(Exception):  # noqa: N818 - it stands for one
    """The process ends here."""


def ready_to_swap(path):
    """A log whose compaction is written; its records before and what they must be afterwards."""
    log = open_log(path, **COMPACT)
    for number in range(40):
        put(log, (b"key%d" % (number % 7), b"%d" % number))
    before = content(log)
    plan = replace(log.cleaning.plan(NOW_MS, force=True), segment_bytes=120, max_batch_bytes=0)
    result = compact(plan, REAL_WRITER)
    assert len(result.old_bases) > 3
    assert len(result.new_bases) > 1
    log.abandon()
    return before, result


def twenty_values_of_one_key(path, **settings):
    log = open_log(path, **{**COMPACT, **settings})
    for number in range(20):
        put(log, (b"a", b"%d" % number))
    return log


def run_until(path, result, number):
    """The swap, stopped before its step `number`; False when it had fewer."""
    steps = []

    def step(name):
        if len(steps) == number:
            raise Crash(name)
        steps.append(name)

    swap.commit(path, result.old_bases, result.new_bases, REAL_WRITER)
    try:
        swap.install(path, REAL_WRITER, step)
    except Crash:
        return True
    return False


def test_a_swap_is_finished_wherever_a_crash_interrupted_it(tmp_path):
    before, result = ready_to_swap(tmp_path / "written")
    newest = {key: offset for offset, key, _ in before}
    after = [each for each in before if newest[each[1]] == each[0]]
    number, crashed = 0, True
    while crashed:
        path = tmp_path / "crashed"
        shutil.copytree(tmp_path / "written", path)
        crashed = run_until(path, result, number)
        # The next opening may crash in the middle as well.
        if crashed:
            with pytest.raises(Crash):
                swap.install(path, REAL_WRITER, _crash)
        log = open_log(path, **COMPACT)
        assert content(log) == after
        assert log.log_end_offset == 40
        assert append(log, values(b"v")) == 40
        leftovers = [each.name for each in path.iterdir() if each.suffix in (".cleaned", ".swap", ".deleted")]
        assert leftovers == []
        log.abandon()
        shutil.rmtree(path)
        number += 1
    assert number > 20


def _crash(name):
    raise Crash(name)


def test_before_the_commit_the_old_segments_count(tmp_path):
    before, _ = ready_to_swap(tmp_path)
    (tmp_path / "compaction.swap.tmp").write_bytes(b"{")
    log = open_log(tmp_path, **COMPACT)
    assert content(log) == before
    assert not list(tmp_path.glob("*.cleaned"))
    assert not list(tmp_path.glob("*.tmp"))
    log.abandon()


@pytest.mark.parametrize("meanwhile", ["truncated", "deleted"])
def test_a_result_the_log_has_moved_past_is_dropped(tmp_path, meanwhile):
    log = twenty_values_of_one_key(tmp_path, cleanup_policy="compact,delete")
    result = compact(log.cleaning.plan(NOW_MS, force=True), REAL_WRITER)
    if meanwhile == "truncated":
        log.truncate_to(15)
    else:
        log.retention.delete_before(10)
        remove_files(log.retention.apply(NOW_MS))
    before = content(log)
    assert log.cleaning.swap(result, NOW_MS) == []
    assert content(log) == before
    assert not list(tmp_path.glob("*.cleaned"))
    log.abandon()


def test_appends_and_reads_go_on_during_a_compaction(tmp_path):
    log = twenty_values_of_one_key(tmp_path)
    plan = log.cleaning.plan(NOW_MS, force=True)
    for number in range(20, 30):
        put(log, (b"a", b"%d" % number))
    result = compact(plan, REAL_WRITER)
    put(log, (b"b", b"1"))
    old = log.cleaning.swap(result, NOW_MS)
    assert [offset for offset, _, _ in content(log)] == [19, *range(20, 31)]
    remove_files(old)
    log.abandon()
    log = open_log(tmp_path, **COMPACT)
    assert [offset for offset, _, _ in content(log)] == [19, *range(20, 31)]
    log.abandon()


def test_a_helper_process_can_compact(tmp_path):
    log = twenty_values_of_one_key(tmp_path)
    plan = log.cleaning.plan(NOW_MS, force=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        result = pool.submit(compact, plan, REAL_WRITER).result(timeout=60)
    assert (result.records_read, result.records_kept) == (20, 1)
    log.cleaning.swap(result, NOW_MS)
    assert content(log) == [(19, b"a", b"19")]
    log.abandon()


def test_a_failed_compaction_leaves_no_files(tmp_path):
    log = twenty_values_of_one_key(tmp_path)
    plan = log.cleaning.plan(NOW_MS, force=True)
    disk = FullDisk()
    disk.fsync_error = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space"):
        compact(plan, disk)
    assert not list(tmp_path.glob("*.cleaned"))
    assert len(content(log)) == 20
    log.abandon()


def test_a_swap_the_disk_refuses_changes_nothing(tmp_path):
    disk = FullDisk()
    log = twenty_values_of_one_key(tmp_path, writer=disk)
    result = compact(log.cleaning.plan(NOW_MS, force=True), disk)
    disk.file_error = OSError(28, "No space left on device")
    with pytest.raises(StorageError):
        log.cleaning.swap(result, NOW_MS)
    disk.file_error = None
    assert len(content(log)) == 20
    put(log, (b"a", b"more"))
    log.abandon()


def test_a_swap_with_a_new_segment_missing_changes_nothing(tmp_path):
    before, result = ready_to_swap(tmp_path)
    cleaned(Segment(tmp_path, result.new_bases[1]).path).unlink()
    with pytest.raises(FileNotFoundError):
        swap.commit(tmp_path, result.old_bases, result.new_bases, REAL_WRITER)
    log = open_log(tmp_path, **COMPACT)
    assert content(log) == before
    log.abandon()
