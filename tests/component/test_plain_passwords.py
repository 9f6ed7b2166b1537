"""Passwords that come in clear are verified a few at a time, in threads: SECURITY.md, B.2."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.entrance import users
from actors.broker.entrance.users import Passwords, StoredUsers
from actors.security.plain import kept_of
from actors.security.scram import ScramCredential, ScramMechanism
from placement.metadata import ClusterMetadata
from placement.records import UserScramCredentialRecord
from tests.support.runtime_helpers import until


def passwords(loop: Any = None, threads: int = 2) -> tuple[Passwords, ClusterMetadata]:
    context: Any = SimpleNamespace(metadata=ClusterMetadata())
    return Passwords(StoredUsers(context), loop or asyncio.get_running_loop(), b"key", threads), context.metadata


@pytest.mark.conformance("XB-10")
async def test_beyond_64_that_wait_none_is_verified_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, threads = threading.Event(), set[int]()

    def blocked(*_: Any) -> bool:
        threads.add(threading.get_ident())
        return may_go_on.wait(60)

    monkeypatch.setattr(users, "fits", blocked)
    verifier, _ = passwords()
    own = {"anne": kept_of("pencil", b"salt")}
    verdicts: list[bool | None] = []
    for number in range(68):
        verifier.verify("anne", f"guess {number}", own, "10.0.0.1", verdicts.append)
    assert verdicts == [None, None]
    may_go_on.set()
    await until(lambda: len(verdicts) == 68)
    assert verdicts[2:] == [True] * 66
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    verifier.close()


@pytest.mark.conformance("XB-10")
async def test_one_address_takes_no_places_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, order = threading.Event(), list[str]()

    def noted(password: str, *_: Any) -> bool:
        may_go_on.wait(60)
        order.append(password)
        return True

    monkeypatch.setattr(users, "fits", noted)
    verifier, _ = passwords(threads=1)
    own = {"anne": kept_of("pencil", b"salt")}
    attackers: list[bool | None] = []
    others: list[bool | None] = []
    for number in range(100):
        verifier.verify("anne", f"guess {number}", own, f"2001:db8::{number + 1:x}", attackers.append)
    assert attackers == [None] * 35, "one is verified, 64 wait"
    for number in range(3):
        verifier.verify("anne", f"password {number}", own, "10.0.0.2", others.append)
    assert (attackers, others) == ([None] * 38, [])
    may_go_on.set()
    await until(lambda: len(attackers) + len(others) == 103)
    assert others == [True] * 3
    first = ["guess 0", "guess 1", "password 0", "guess 2", "password 1", "guess 3", "password 2", "guess 4"]
    assert order[: len(first)] == first, "they take turns"
    verifier.close()


@pytest.mark.conformance("XB-10")
async def test_a_right_one_is_remembered_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[str] = []
    fits = users.fits

    def counted(password: str, *rest: Any) -> bool:
        derived.append(password)
        return fits(password, *rest)

    monkeypatch.setattr(users, "fits", counted)
    loop = asyncio.get_running_loop()
    clock = SimpleNamespace(time=loop.time, run_in_executor=loop.run_in_executor)
    verifier, _ = passwords(clock)
    own = {"anne": kept_of("pencil", b"salt")}

    async def verdict(password: str) -> bool | None:
        found: list[bool | None] = []
        verifier.verify("anne", password, own, "10.0.0.1", found.append)
        await until(lambda: found)
        return found[0]

    assert [await verdict("pencil"), await verdict("pencil"), await verdict("pen")] == [True, True, False]
    assert derived == ["pencil", "pen"]
    later = loop.time() + 60
    clock.time = lambda: later
    assert await verdict("pencil")
    assert derived == ["pencil", "pen", "pencil"]
    own["anne"] = kept_of("crayon", b"salt")
    assert not await verdict("pencil")
    verifier.close()


async def test_an_unknown_user_takes_the_hash_of_most_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users have SCRAM-SHA-512 alone, its longer time would tell who there is."""
    seen: list[tuple[ScramMechanism, int]] = []

    def noted(_: str, mechanism: ScramMechanism, credential: ScramCredential) -> bool:
        seen.append((mechanism, credential.iterations))
        return False

    monkeypatch.setattr(users, "fits", noted)
    verifier, metadata = passwords()
    known = [("anne", ScramMechanism.SHA_512), ("ben", ScramMechanism.SHA_512), ("cleo", ScramMechanism.SHA_256)]
    for user, mechanism in [*known, ("cleo", ScramMechanism.SHA_512)]:
        metadata.apply(UserScramCredentialRecord(user, mechanism.code, b"salt", b"stored", b"server", 5000))
    verdicts: list[bool | None] = []
    for user in ("anne", "nobody", "cleo"):
        verdicts.clear()
        verifier.verify(user, "guess", {}, "10.0.0.1", verdicts.append)
        await until(lambda: verdicts)
    assert seen == [(ScramMechanism.SHA_512, 5000)] * 2 + [(ScramMechanism.SHA_256, 5000)]
    verifier.close()


@pytest.mark.parametrize("refused", [True, False])
async def test_passwords_are_verified_by_a_broker_that_gives_way_already(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but root may make a thread less nice than it is."""
    wanted: list[int] = []

    def set_priority(which: int, who: int, niceness: int) -> None:
        wanted.append(niceness)
        if refused or niceness < 19:
            raise PermissionError("the operation is not permitted")

    monkeypatch.setattr(users.os, "getpriority", lambda *_: 19)
    monkeypatch.setattr(users.os, "setpriority", set_priority)
    verifier, _ = passwords()
    verdicts: list[bool | None] = []
    verifier.verify("anne", "pencil", {"anne": kept_of("pencil", b"salt")}, "10.0.0.1", verdicts.append)
    await until(lambda: bool(verdicts))
    assert verdicts == [True]
    assert set(wanted) == {19}
    verifier.close()
