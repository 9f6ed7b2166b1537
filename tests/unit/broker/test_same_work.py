"""A login of an unknown user costs the same work as a wrong password: the same lines, calls, hits and misses.

Times are not compared here: they depend on the machine, and on its caches.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from actors.broker.entrance.users import Passwords, StoredUsers
from actors.security.scram import ScramClient, ScramMechanism, salted_password
from actors.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from placement.metadata import ClusterMetadata
from placement.records import ScramSecretRecord, UserScramCredentialRecord
from tests.support.login_world import PLAIN, Client, World, request

KNOWN, UNKNOWN, OTHER_MECHANISM = "anne", "bert", "carl"
WRONG = salted_password(ScramMechanism.SHA_256, "wrong", b"salt", 4096)
Work = list[tuple[str, object]]


class CountedTable(dict[Any, Any]):
    """Counts look-ups that find a value, and those that do not."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.counts = Counter[bool]()

    def get(self, key: Any, default: Any = None) -> Any:
        self.counts[key in self] += 1
        return super().get(key, default)


def metadata() -> ClusterMetadata:
    made = ClusterMetadata()
    made.apply(ScramSecretRecord(b"secret"))
    for user, mechanism in ((KNOWN, 1), (OTHER_MECHANISM, 2), ("dora", 1)):
        made.apply(
            UserScramCredentialRecord(user, mechanism, b"salt", bytes(32 * mechanism), bytes(32 * mechanism), 4096)
        )
    made.scram = CountedTable(made.scram)
    return made


def work_of(call: Callable[[], None]) -> Work:
    """The lines of our code that run, and their calls of Python's own functions."""
    found: Work = []

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if "/actors/" not in path:
            return None
        found.append((path, frame.f_lineno))
        return traced

    def profiled(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and "/actors/" in frame.f_code.co_filename:
            found.append((event, called.__qualname__))

    sys.settrace(traced)
    sys.setprofile(profiled)
    try:
        call()
    finally:
        sys.setprofile(None)
        sys.settrace(None)
    return found


def scram_in(metadata: ClusterMetadata, user: str) -> tuple[Work, Work]:
    """The work of both steps of a login whose password is wrong."""
    context: Any = SimpleNamespace(metadata=metadata)
    client = World(users=StoredUsers(context)).connect()
    client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    machine = ScramClient(ScramMechanism.SHA_256, user, "ours")
    first = SaslAuthenticateRequest(auth_bytes=machine.first())
    data = request(first, 2)
    begins = work_of(lambda: client.send(data))
    machine.read_first(client.answer(first, 2).auth_bytes)
    last = request(SaslAuthenticateRequest(auth_bytes=machine.final(WRONG)), 2)
    ends = work_of(lambda: client.send(last))
    assert not client.transport.reading, "it has failed"
    return begins, ends


@pytest.mark.conformance("XG-07", "XB-22")
def test_scram_does_the_same_for_who_does_not_exist() -> None:
    table = metadata()
    scram_in(table, "dora")  # the first use fills the caches
    known = scram_in(table, KNOWN)
    counted: Any = table.scram
    for user in (UNKNOWN, OTHER_MECHANISM):
        counts = Counter(counted.counts)
        work = scram_in(table, user)
        assert work == known
        assert counted.counts - counts == {True: 1, False: 1}
    assert min(map(len, known)) > 100, "it was seen"


@pytest.mark.conformance("XG-07", "XB-11")
def test_plain_does_the_same_for_who_does_not_exist() -> None:
    table = metadata()
    counted: Any = table.scram
    context: Any = SimpleNamespace(metadata=table)
    derived: list[tuple[ScramMechanism, int, int]] = []
    ended: list[Callable[[Any], None]] = []

    def in_thread(executor: Any, fits: Any, password: str, mechanism: ScramMechanism, credential: Any) -> Any:
        derived.append((mechanism, credential.iterations, len(credential.salt)))
        return SimpleNamespace(add_done_callback=ended.append)

    loop: Any = SimpleNamespace(time=lambda: 0.0, run_in_executor=in_thread)
    passwords = Passwords(StoredUsers(context), loop, b"key")

    def put(user: str) -> None:
        passwords.verify(user, "wrong", {}, "10.0.0.1", lambda right: None)

    def end() -> None:
        """The thread is free for the next password."""
        ended.pop()(SimpleNamespace(cancelled=lambda: True))

    put(KNOWN)
    end()
    seen: list[tuple[Work, Counter[bool]]] = []
    for user in (KNOWN, UNKNOWN, "dora", "emil"):
        counts = Counter(counted.counts)
        work = work_of(lambda user=user: put(user))  # type: ignore[misc]
        end()
        seen.append((work, counted.counts - counts))
    assert all(each == seen[0] for each in seen)
    assert set(derived) == {(ScramMechanism.SHA_256, 4096, 4)}
    passwords.close()


def test_a_client_of_plain_is_asked_for_in_the_same_way() -> None:
    """Before a password is verified nothing looks for the user."""

    def asked(user: str) -> Work:
        client: Client = World().connect()
        client.ask(SaslHandshakeRequest(mechanism=PLAIN), 1)
        token = request(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0wrong".encode()), 2)
        return work_of(lambda: client.send(token))

    assert asked(KNOWN) == asked(UNKNOWN)
