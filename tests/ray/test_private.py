"""What a cluster leaves for other users of its machine to see: SECURITY.md, X-E.3."""

from __future__ import annotations

import stat
from pathlib import Path

import psutil

from tests.ray.support import commit, consumer, descendants, produce, topic, up


def open_to_others(folder: Path) -> list[str]:
    """What another user may enter, read or change."""
    return [f"{path} {path.lstat().st_mode:o}" for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077]


def test_a_started_cluster_has_nothing_that_another_user_may_read_whatever_the_umask(tmp_path: Path) -> None:
    """XE-20, XE-21, XG-14."""
    data_dir = tmp_path / "data"
    with up(data_dir, umask=0) as running:
        topic(running.servers, "t")
        produce(running.servers, "t", [b"a"])
        client = consumer(running.servers, "g")
        commit(client, "t", 1)
        client.close()
        assert open_to_others(data_dir) == []
        seen = [look for process in descendants(running.process.pid) if (look := seen_of(process)) is not None]
        sockets = {Path(path) for _, paths in seen for path in paths if "coterie-" in path}
        assert "0.sock" in {path.name for path in sockets}
        assert {stat.S_IMODE(path.parent.stat().st_mode) for path in sockets} == {0o700}
        secret = (data_dir / "secret").read_text().strip()
        assert len(secret) == 64
        assert len(seen) > 5
        assert not [words for words, _ in seen if secret in words]


def seen_of(process: psutil.Process) -> tuple[str, list[str]] | None:
    """A process's arguments and environment, and the Unix sockets it has; None if it has just ended."""
    try:
        words = " ".join((*process.cmdline(), *process.environ().values()))
        return words, [each.laddr for each in process.net_connections("unix")]
    except psutil.NoSuchProcess:
        return None
