"""Data directories that others prepared, that are volumes, full, read-only or in use: what a start makes of them."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.controller.held_data import hold
from actors.controller.preparation import prepare_folder
from actors.links.secret import read_secret
from actors.log.folder_lock import FolderLock
from actors.log.unusable import why_unusable
from actors.runtime.data_folder import UntrustedError
from actors.runtime.ray_runtime import ClusterError, join

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to another user")
mounting = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0,
    reason="only root can mount, and not everywhere",
)
PREPARE = """
import os, sys
from pathlib import Path
from actors.controller.preparation import prepare_folder
for user in map(int, sys.argv[2:]):  # only now: another user may not even find the interpreter
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
try:
    print(prepare_folder(Path(sys.argv[1])))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def prepared_by(user: int, folder: Path) -> str:
    """The result of `prepare_folder` in a process of another user: its value, or its error."""
    command = [sys.executable, "-c", PREPARE, str(folder), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# --- prepared by another user ---


@as_root
@pytest.mark.parametrize("name", ["secret", "secret.next", "pools-key", "ray-token", "client.properties", "ca.pem"])
@pytest.mark.parametrize("how", ["his file", "a link to his file", "a pipe of his"])
def test_what_another_user_put_into_a_folder_was_taken_for_ours(everybodys: Path, name: str, how: str) -> None:
    """With that secret the other user joined as a broker, with that token the other user ran code."""
    prepare_folder(everybodys / "data")
    his, path = everybodys / "his", everybodys / "data" / name
    path.unlink(missing_ok=True)
    his.write_text("ab" * 32)
    if how == "a link to his file":
        path.symlink_to(his)
    elif how == "his file":
        his.rename(path)
    else:
        os.mkfifo(path)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(ClusterError, match=rf"data directory .*{name} (belongs to another user|is a link|is no file)"):
        prepare_folder(everybodys / "data")


@as_root
@pytest.mark.parametrize("name", ["", "controller", "logs", "monitor", "broker-0", "private"])
def test_a_folder_that_another_user_made_was_used(everybodys: Path, name: str) -> None:
    folder = everybodys / "data" / name
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(ClusterError, match=f"data directory {folder} belongs to another user"):
        prepare_folder(everybodys / "data")


@as_root
def test_a_command_let_a_folder_of_another_user_say_which_ray_it_joins(everybodys: Path) -> None:
    """A program that connects to his Ray runs his code."""
    (everybodys / "ray-address").write_text("127.0.0.1:1")
    (everybodys / "ray-token").write_text("his")
    for path in (everybodys, everybodys / "ray-address"):
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(ClusterError, match=f"data directory {path} belongs to another user"):
            join(None, everybodys)
        os.chown(path, 0, 0)


@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_who_looks_for_a_cluster_without_a_token_of_its_own_makes_none(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Ray was started with RAY_AUTH_TOKEN, and `coterie status` gave it a token that it had just made up."""
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    (tmp_path / "ray-address").write_text("127.0.0.1:1")
    with pytest.raises(ClusterError, match="no Ray answers at 127"):
        join(None, tmp_path)
    assert not (tmp_path / "ray-token").exists()


@as_root
def test_a_secret_was_read_through_a_link_of_another_user(everybodys: Path) -> None:
    (everybodys / "mine").write_text("ab" * 32)
    path = everybodys / "secret"
    path.symlink_to(everybodys / "mine")
    assert len(read_secret(path)) == 32, "as a secret is mounted"
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(UntrustedError, match="is a link of another user"):
        read_secret(path)


# --- a volume ---


@as_root
def test_in_a_volume_of_a_group_private_files_lie_in_a_folder_of_their_own(everybodys: Path) -> None:
    """A pod mounts such a volume: root owns it, its group may write, and each mount gives the group all files in it."""
    volume = everybodys / "volume"
    volume.mkdir()
    os.chown(volume, 0, NOBODY)
    volume.chmod(0o2777)
    private = volume / "private"
    assert prepared_by(NOBODY, volume) == str(private / "secret")
    secret = (private / "secret").read_text()
    assert [mode(private) & 0o777, mode(private / "secret"), mode(volume / "controller") & 0o777] == [
        0o700,
        0o600,
        0o700,
    ]
    for path in (volume, *volume.rglob("*")):
        path.chmod(mode(path) | (0o2770 if path.is_dir() else 0o660))
    assert prepared_by(NOBODY, volume) == str(private / "secret")
    assert [mode(private) & 0o777, mode(private / "secret")] == [0o700, 0o600]
    assert (private / "secret").read_text() == secret


@as_root
def test_a_volume_of_an_older_start_keeps_its_secret(everybodys: Path) -> None:
    assert prepared_by(0, everybodys / "volume") == str(everybodys / "volume" / "secret")
    secret = (everybodys / "volume" / "secret").read_text()
    for path in (everybodys / "volume").rglob("*"):
        os.chown(path, NOBODY, NOBODY)
    (everybodys / "volume").chmod(0o2777)
    found = Path(prepared_by(NOBODY, everybodys / "volume"))
    assert found == everybodys / "volume" / "private" / "secret"
    assert found.read_text() == secret
    assert not (everybodys / "volume" / "secret").exists()


@as_root
def test_in_a_volume_another_users_secret_was_taken(everybodys: Path) -> None:
    everybodys.chmod(0o2777)
    (everybodys / "secret").write_text("ab" * 32)
    os.chown(everybodys / "secret", NOBODY - 1, NOBODY)
    assert "secret belongs to another user" in prepared_by(NOBODY, everybodys)


# --- what cannot be used ---


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOTDIR, "a file is in its way: name a folder"),
        (errno.EEXIST, "a file is in its way: name a folder"),
        (errno.EROFS, "read-only: name another folder, or have it mounted for writing"),
        (errno.ENOSPC, "its disk is full: make room there"),
        (errno.EDQUOT, "its disk is full: make room there"),
        (errno.EACCES, "/x/y may not be used by this user (uid "),
        (errno.EPERM, "chown it to this user, or name another folder"),
        (errno.ENAMETOOLONG, "name a shorter one"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_data_directory_that_cannot_be_used_is_one_line_with_what_to_do(number: int, words: str) -> None:
    said = why_unusable(Path("/x"), OSError(number, os.strerror(number), "/x/y"))
    assert said.startswith("data directory /x cannot be used: ")
    assert words in said
    assert "\n" not in said


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_in_the_place_of_a_data_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="cannot be used: a file is in its way: name a folder"):
        prepare_folder(tmp_path / name)


@as_root
def test_a_data_directory_where_this_user_may_not_write(everybodys: Path) -> None:
    assert f"{everybodys / 'data'} may not be used by this user (uid {NOBODY})" in prepared_by(
        NOBODY, everybodys / "data"
    )


@mounting
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("head -c 1000000 /dev/zero > {0}/x 2> /dev/null", "its disk is full: make room there"),
        ("mount -o remount,ro {0}", "its disk is mounted read-only"),
    ],
)
def test_a_full_disk_and_one_that_is_read_only(tmp_path: Path, before: str, words: str) -> None:
    (tmp_path / "prepare.py").write_text(PREPARE)
    folder = tmp_path / "disk"
    folder.mkdir()
    script = f"mount -t tmpfs -o size=64k,mode=700 none {folder}; {before.format(folder)}; "
    script += f"exec {sys.executable} {tmp_path / 'prepare.py'} {folder}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=True)
    assert f"data directory {folder} cannot be used: {words}" in done.stdout


# --- in use ---


def test_a_second_start_on_the_same_data_waited_until_the_lock_of_the_controller_timed_out(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    first, controller = hold(tmp_path), FolderLock(tmp_path / "controller", 0.0)
    with pytest.raises(ClusterError, match=rf"is in use by the cluster that process {os.getpid()} runs: stop that"):
        hold(tmp_path)
    first.release()
    hold(tmp_path).release()
    controller.release()


async def test_a_start_after_coterie_down_waits_for_the_process_of_the_cluster_that_has_ended(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    first = hold(tmp_path)
    second = asyncio.create_task(asyncio.to_thread(hold, tmp_path))
    await asyncio.sleep(0)
    assert not second.done()
    first.release()
    (await second).release()
