"""The lock of a folder: one process has it, its death frees it, its children do not keep it."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from actors.log.folder_lock import FolderInUseError, FolderLock, is_locked

HOLDER = """
    import os, subprocess, sys, time
    from pathlib import Path
    from actors.log.folder_lock import FolderLock
    FolderLock(Path(sys.argv[1]), 0)
    if sys.argv[2] == "start":
        child = subprocess.Popen(["sleep", "60"], close_fds=False).pid
    elif (child := os.fork()) == 0:
        time.sleep(60)
    print(child, flush=True)
    time.sleep(60)
"""


def test_a_second_owner_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path, 0)
    assert is_locked(tmp_path)
    with pytest.raises(FolderInUseError, match=f"pid {os.getpid()}") as caught:
        FolderLock(tmp_path, 0.1)
    assert caught.value.owner == str(os.getpid())
    lock.release()
    lock.release()
    assert not is_locked(tmp_path)


def test_a_lock_nobody_keeps_a_reference_to_is_still_held(tmp_path: Path) -> None:
    FolderLock(tmp_path, 0)
    gc.collect()
    assert is_locked(tmp_path)


def test_another_thread_can_release_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path, 0)
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert not is_locked(tmp_path)


@pytest.mark.parametrize("how", ["start", "fork"])
def test_its_holders_death_frees_it_while_a_child_lives(tmp_path: Path, how: str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(tmp_path), how], stdout=subprocess.PIPE, text=True
    )
    with holder.stdout:  # type: ignore[union-attr]
        child = int(holder.stdout.readline())  # type: ignore[union-attr]
    try:
        assert is_locked(tmp_path)
        holder.kill()
        holder.wait()
        FolderLock(tmp_path, 10).release()
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
