"""The folder of an embedded Ray's session: ours alone, and not too long for sockets."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.runtime import ray_folder
from actors.runtime.ray_connection import ClusterError


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_session_lay_where_others_may_move_its_sockets(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray lets all write to the folder that it is given, and to that of its sockets."""
    monkeypatch.setenv("RAY_TMPDIR", str(short / "r"))
    monkeypatch.setattr("tempfile.tempdir", "/not-asked")
    first, second = ray_folder.made(), ray_folder.made()
    assert first.parent != second.parent
    for made in (first, second):
        assert made.parent.parent == short / "r"
        assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def test_the_folder_is_short_enough_for_sockets_or_that_is_said() -> None:
    long = "/" + "x" * 40
    assert ray_folder.base_for(None, "/var/tmp") == Path("/var/tmp")
    assert ray_folder.base_for(None, long) == Path("/tmp")
    assert ray_folder.base_for("/mine", long) == Path("/mine")
    with pytest.raises(ClusterError, match="x is too long for the sockets of Ray: set RAY_TMPDIR to a shorter path"):
        ray_folder.base_for(long, "/tmp")


def test_sessions_of_days_ago_go_unless_something_listens_there(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(short))
    old, alive, young = (ray_folder.made() for _ in range(3))
    with socket.socket(socket.AF_UNIX) as raylet:
        for made in (old, alive):
            (made / "session_1" / "sockets").mkdir(parents=True)
        raylet.bind(str(alive / "session_1" / "sockets" / "raylet"))
        raylet.listen()
        for made in (old, alive):
            os.utime(made.parent, (0, 0))
        ray_folder.sweep(short)
        assert [made.parent.exists() for made in (old, alive, young)] == [False, True, True]
