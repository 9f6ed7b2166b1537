"""The folders and files that a data directory may have: the owner, mode and type of `lstat` decide."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from actors.runtime.data_folder import (
    PRIVATE,
    UntrustedError,
    check_folder,
    fault_of,
    folder_fault,
    is_shared,
    place_of,
    prepared,
    read_trusted,
)

ROOT, US, OTHER = 0, 1000, 1001


def entry(kind: int, mode: int, user: int) -> os.stat_result:
    return os.stat_result((kind | mode, 1, 1, 1, user, 1000, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("kind", "mode", "user", "word"),
    [
        (stat.S_IFREG, 0o600, US, None),
        (stat.S_IFREG, 0o644, US, None),
        (stat.S_IFREG, 0o440, ROOT, None),
        (stat.S_IFREG, 0o600, OTHER, "belongs to another user"),
        (stat.S_IFLNK, 0o777, US, "is a link"),
        (stat.S_IFIFO, 0o600, US, "is no file"),
        (stat.S_IFDIR, 0o700, US, "is no file"),
        (stat.S_IFCHR, 0o600, ROOT, "is no file"),
        (stat.S_IFREG, 0o620, US, "others may have written to it"),
        (stat.S_IFREG, 0o602, ROOT, "others may have written to it"),
    ],
)
def test_a_private_file_that_somebody_else_has_a_hand_in_was_taken(
    kind: int, mode: int, user: int, word: str | None
) -> None:
    fault = fault_of(entry(kind, mode, user), US)
    assert (fault is None) == (word is None)
    assert word is None or word in (fault or "")


@pytest.mark.parametrize(("mode", "fine"), [(0o660, True), (0o666, False)])
def test_a_volumes_group_may_have_got_rights_to_our_files_and_nobody_else(mode: int, fine: bool) -> None:
    assert (fault_of(entry(stat.S_IFREG, mode, US), US, group_may=True) is None) == fine


@pytest.mark.parametrize(
    ("mode", "user", "mounted", "word"),
    [
        (0o700, US, False, None),
        (0o755, US, True, None),
        (0o2775, ROOT, False, None),  # a volume with the group of fsGroup
        (0o2777, ROOT, True, None),  # an emptyDir
        (0o775, US, False, "others may write in it: chmod go-w"),
        (0o777, US, True, "others may write in it: chmod go-w"),
        (0o700, OTHER, False, "belongs to another user (uid 1001)"),
        (0o777, OTHER, True, "belongs to another user (uid 1001)"),
        (0o755, ROOT, False, "belongs to another user (uid 0)"),
    ],
)
def test_a_folder_that_another_user_prepared_was_taken(mode: int, user: int, mounted: bool, word: str | None) -> None:
    fault = folder_fault(entry(stat.S_IFDIR, mode, user), US, mounted=mounted)
    assert (fault is None) == (word is None)
    assert word is None or word in (fault or "")


def test_for_root_only_a_mounted_folder_is_shared() -> None:
    open_to_all = entry(stat.S_IFDIR, 0o777, ROOT)
    assert is_shared(open_to_all, ROOT, mounted=True)
    assert not is_shared(open_to_all, ROOT, mounted=False)
    assert folder_fault(open_to_all, ROOT, mounted=False) is not None


def test_what_is_no_folder_holds_no_data() -> None:
    for kind in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO):
        assert folder_fault(entry(kind, 0o700, US), US, mounted=False) == "is no folder: choose another --data-dir"


# --- with small files ---

NAMES = ("secret", "ray-token")


@pytest.mark.parametrize("name", [*NAMES, "ca.pem"])
def test_a_private_file_that_is_a_link_was_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "his").write_text("ab" * 32)
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / name).symlink_to(tmp_path / "his")
    with pytest.raises(UntrustedError, match=f"{name} is a link"):
        prepared(tmp_path / "data", NAMES, ["ca.pem"], [])


def test_a_folder_within_that_is_a_link_was_followed(tmp_path: Path) -> None:
    (tmp_path / "his").mkdir()
    (tmp_path / "data").mkdir(mode=0o700)
    for name in ("controller", PRIVATE):
        (tmp_path / "data" / name).symlink_to(tmp_path / "his")
        with pytest.raises(UntrustedError, match=f"{name} is a link"):
            prepared(tmp_path / "data", NAMES, [], ["controller"])
        (tmp_path / "data" / name).unlink()


def test_an_empty_folder_of_ours_is_taken_from_others_and_a_full_one_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o777)
    assert prepared(folder, NAMES, [], []) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    (folder / "something").touch()
    folder.chmod(0o775)
    with pytest.raises(UntrustedError, match=f"{folder} has mode 775, others may write in it: chmod go-w it"):
        check_folder(folder)


def test_where_there_is_a_private_folder_private_files_stay_in_it(tmp_path: Path) -> None:
    (tmp_path / PRIVATE).mkdir(mode=0o700)
    (tmp_path / "secret").touch(0o600)
    assert place_of(tmp_path) == prepared(tmp_path, NAMES, [], []) == tmp_path / PRIVATE
    assert [(tmp_path / "secret").exists(), (tmp_path / PRIVATE / "secret").exists()] == [False, True]
    (tmp_path / PRIVATE).chmod(0o770)
    with pytest.raises(UntrustedError, match="mode 770"):
        place_of(tmp_path)
    assert place_of(tmp_path / "nowhere") == tmp_path / "nowhere"


def test_a_file_is_looked_at_once_more_when_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    assert read_trusted(path) == b"x"
    (tmp_path / "mounted").symlink_to(path)
    assert read_trusted(tmp_path / "mounted") == b"x", "a link of ours, as those of a mounted secret are root's"
    path.chmod(0o622)
    with pytest.raises(UntrustedError, match="others may have written to it"):
        read_trusted(path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UntrustedError, match="is no file"):
        read_trusted(tmp_path / "pipe")
