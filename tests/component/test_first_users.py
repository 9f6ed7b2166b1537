"""The way of a first user into the metadata log: SECURITY.md, B.6."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import pytest

from actors.controller import first_users
from actors.controller.metadata.standalone import StandaloneLog
from actors.security.add_scram import AddScramError
from actors.security.plain import fits
from actors.security.scram import ScramCredential, ScramMechanism

CHANCE = random.Random(1)
ALICE = "SCRAM-SHA-256=[name=alice,password-file={}]"


def log_of(folder: Path) -> StandaloneLog:
    return StandaloneLog(first_users.log_path(folder), lock_timeout_s=0.0)


def password_in(folder: Path, text: str = "pencil\nnot this\n") -> str:
    path = folder / "password"
    path.write_text(text)
    return str(path)


@pytest.mark.conformance("XB-41")
def test_the_controller_takes_what_was_left_and_removes_it(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    made = first_users.made([ALICE.format(password_in(tmp_path))], CHANCE)
    first_users.leave(tmp_path, made)
    (left,) = (tmp_path / "controller").iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    assert b"pencil" not in left.read_bytes()
    log = log_of(tmp_path)
    first_users.take(tmp_path, log, CHANCE)
    assert not left.exists()
    (row,) = log.committed.scram.values()
    assert set(log.committed.scram) == {("alice", 1)}
    assert fits("pencil", ScramMechanism.SHA_256, ScramCredential(*row))
    secret = log.committed.scram_secret
    assert len(secret) == 32
    first_users.take(tmp_path, log, CHANCE)
    log.close()
    log = log_of(tmp_path)
    assert (log.committed.scram, log.committed.scram_secret) == ({("alice", 1): row}, secret)
    log.close()


@pytest.mark.conformance("XB-41")
def test_first_users_are_taken_all_or_none(tmp_path: Path) -> None:
    """Whatever the log has of them when the machine stops; with half of them nobody could add the others."""
    (tmp_path / "controller").mkdir()
    texts = [ALICE.format(password_in(tmp_path)), ALICE.format(password_in(tmp_path)).replace("alice", "bert")]
    first_users.leave(tmp_path, first_users.made(texts, CHANCE))
    log = log_of(tmp_path)
    path = first_users.log_path(tmp_path)
    before = path.stat().st_size
    first_users.take(tmp_path, log, CHANCE)
    log.close()
    whole = path.read_bytes()
    for size in (before, before + 1, (before + len(whole)) // 2, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        log = log_of(tmp_path)
        users = {user for user, _ in log.committed.scram}
        assert users == ({"alice", "bert"} if size == len(whole) else set())
        assert bool(log.committed.scram_secret) == bool(users)
        log.close()


@pytest.mark.conformance("XB-41")
def test_a_start_that_is_killed_while_it_leaves_users_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller").mkdir()

    def killed(path: Path, text: str) -> None:
        path.write_text(text[: len(text) // 2])
        raise KeyboardInterrupt

    made = first_users.made([ALICE.format(password_in(tmp_path))], CHANCE)
    with monkeypatch.context() as patch:
        patch.setattr(first_users, "write_private", killed)
        with pytest.raises(KeyboardInterrupt):
            first_users.leave(tmp_path, made)
    log = log_of(tmp_path)
    first_users.take(tmp_path, log, CHANCE)
    assert log.committed.scram == {}
    log.close()
    first_users.log_path(tmp_path).unlink()
    first_users.leave(tmp_path, made)
    assert [path.name for path in (tmp_path / "controller").glob("first*")] == ["first-users.json"]


@pytest.mark.conformance("XB-42")
def test_a_cluster_that_is_there_gets_no_first_users(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    made = first_users.made([ALICE.format(password_in(tmp_path))], CHANCE)
    first_users.leave(tmp_path, made)
    first_users.leave(tmp_path, made)  # the first start has failed before the controller ran
    log_of(tmp_path).close()
    with pytest.raises(AddScramError, match=r"has a cluster already.*--offline"):
        first_users.leave(tmp_path, made)


@pytest.mark.conformance("XB-41")
def test_a_password_is_asked_for() -> None:
    asked: list[str] = []

    def ask(user: str) -> str:
        asked.append(user)
        return "pencil"

    (made,) = first_users.made(["SCRAM-SHA-512=[name=alice,password=-]"], CHANCE, ask)
    assert asked == ["alice"]
    assert len(made.stored_key) == 64
    with pytest.raises(AddScramError, match="which only `coterie up` can do"):
        first_users.made(["SCRAM-SHA-512=[name=alice,password=-]"], CHANCE)


@pytest.mark.conformance("XB-41")
def test_what_was_left_for_a_start_that_failed_is_withdrawn(tmp_path: Path) -> None:
    (tmp_path / "controller").mkdir()
    first_users.leave(tmp_path, first_users.made([ALICE.format(password_in(tmp_path))], CHANCE))
    first_users.withdraw(tmp_path)
    first_users.withdraw(tmp_path)
    assert list((tmp_path / "controller").iterdir()) == []


def test_a_file_without_a_password_and_a_user_twice_are_refused(tmp_path: Path) -> None:
    for text in ("", "\npencil"):
        with pytest.raises(AddScramError, match="has no first line"):
            first_users.made([ALICE.format(password_in(tmp_path, text))], CHANCE)
    with pytest.raises(AddScramError, match="No such file"):
        first_users.made([ALICE.format(tmp_path / "missing")], CHANCE)
    (tmp_path / "password").write_bytes(b"p\xffncil")
    with pytest.raises(AddScramError, match="is no UTF-8") as raised:
        first_users.made([ALICE.format(tmp_path / "password")], CHANCE)
    assert "ncil" not in str(raised.value)
    twice = [ALICE.format(password_in(tmp_path))] * 2
    with pytest.raises(AddScramError, match="named twice"):
        first_users.made(twice, CHANCE)
