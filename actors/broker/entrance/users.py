"""The users of a cluster, as its metadata has them, and the verification of passwords that come in clear (PLAIN)."""

from __future__ import annotations

import asyncio
import hmac
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from actors.broker.context import BrokerContext
from actors.broker.entrance.fair_queue import FairQueue
from actors.quotas.entities import network_of
from actors.security.plain import fits
from actors.security.scram import (
    SALT_BYTES,
    USUAL_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    dummy_credential,
)
from placement.metadata import ClusterMetadata

_NICENESS: Final = 15
_WAITING_MAX: Final = 64
_REMEMBERED_SECONDS: Final = 60.0
_REMEMBERED_MAX: Final = 10_000
_DECOYS_MAX: Final = 1000
_Key = tuple[str, int]
_NO_KEY: Final[_Key] = ("", 0)
_NOBODYS: Final = (b"", b"", b"", 0)


def _give_way() -> None:
    """Leave the cores to the broker's loop, and to other processes of the cluster, where they want them."""
    with suppress(OSError):  # lacking the right is no error: else no password would be verified
        thread = threading.get_native_id()  # this one alone, in Linux
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))


class StoredUsers:
    """The users with a SCRAM credential in the last image. The rest gets made-up ones that look like those."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._usual: dict[int, tuple[int, int]] = {}
        self._mechanism = ScramMechanism.SHA_256
        self._usual_of: object = None
        self._decoys: list[_Key] = [_NO_KEY]

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """The stored credential of the user's password for this mechanism."""
        self._look()
        row = self._row(user, mechanism)
        made = ScramCredential(*row)  # in any case, so that it takes as long for users who do not exist
        return (made, None)[row is _NOBODYS]

    def _row(self, user: str, mechanism: ScramMechanism) -> tuple[bytes, bytes, bytes, int]:
        scram = self._context.metadata.scram
        decoy = self._decoys[hash(user) % len(self._decoys)]
        row = scram.get((user, mechanism.code), _NOBODYS)
        other = (_NO_KEY, decoy)[row is _NOBODYS]
        ScramCredential(*scram.get(other, _NOBODYS))  # everybody costs a key that is there, and one that is not
        return row

    def any_credential(self, user: str) -> tuple[ScramMechanism, ScramCredential | None]:
        """The stored credential of the user's password: for SCRAM-SHA-256 if there are both."""
        by_256, by_512 = [self.credential(user, each) for each in ScramMechanism]
        return (ScramMechanism.SHA_256, by_256) if by_256 is not None else (ScramMechanism.SHA_512, by_512)

    def _chosen(self, user: str) -> ScramMechanism:
        either = (user, ScramMechanism.SHA_256.code) in self._context.metadata.scram
        return ScramMechanism.SHA_256 if either else ScramMechanism.SHA_512

    def dummy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        """The credential of a user who does not exist: its salt is as long, its iterations as many, as most are."""
        self._look()
        salt_bytes, iterations = self._usual.get(mechanism.code, (SALT_BYTES, USUAL_ITERATIONS))
        return dummy_credential(self._context.metadata.scram_secret, mechanism, user, iterations, salt_bytes)

    def any_dummy(self, user: str) -> tuple[ScramMechanism, ScramCredential]:
        """The same as `any_credential` finds it: its mechanism takes as long as that of most users."""
        self._look()
        return self._mechanism, self.dummy(user, self._mechanism)

    def _look(self) -> None:
        """Count what is usual, if users have changed."""
        scram = self._context.metadata.scram
        if self._usual_of is not scram:  # images have the same ones until a credential changes
            found = Counter(self._chosen(user) for user in {user for user, _ in scram})
            self._mechanism = max(ScramMechanism, key=lambda each: found[each])
            self._usual, self._usual_of = _usual(self._context.metadata), scram
            some = islice(scram, _DECOYS_MAX)
            self._decoys = [(user[:1] + user[1:], code) for user, code in some] or [_NO_KEY]


def _usual(metadata: ClusterMetadata) -> dict[int, tuple[int, int]]:
    """The most frequent length of a salt and number of iterations, by the mechanism's code."""
    counts: dict[int, Counter[tuple[int, int]]] = {}
    for (_, code), (salt, _, _, iterations) in metadata.scram.items():
        counts.setdefault(code, Counter())[len(salt), iterations] += 1
    return {code: max(count, key=lambda each: (count[each], each)) for code, count in counts.items()}


@dataclass(frozen=True, slots=True)
class _Guess:
    password: str = field(repr=False)
    mechanism: ScramMechanism
    credential: ScramCredential
    known: bool
    digest: bytes
    done: Callable[[bool | None], None]


class Passwords:
    """Verifies passwords in `threads`, a few at a time. One that was right is remembered for a minute.

    Others wait, and the addresses that they come from take turns. `key` is random, and this process's alone.
    """

    def __init__(self, users: StoredUsers, loop: asyncio.AbstractEventLoop, key: bytes, threads: int = 2) -> None:
        self._users = users
        self._loop = loop
        self._key = key
        self._most = threads
        self._threads = ThreadPoolExecutor(threads, "passwords", initializer=_give_way)
        self._running = 0
        self._waiting: FairQueue[_Guess] = FairQueue(_WAITING_MAX)
        self._right: dict[bytes, float] = {}  # until when, by a digest of user, password and credential

    def close(self) -> None:
        """Verify no more."""
        self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def verify(
        self,
        user: str,
        password: str,
        own: Mapping[str, ScramCredential],
        peer: str,
        done: Callable[[bool | None], None],
    ) -> None:
        """`done` gets whether the password is the user's, perhaps at once; None if too many wait already.

        `own` are users of SCRAM-SHA-256 that the listener has besides. `peer` is the address that the password has come
        from. A user who does not exist costs as much as one who does.
        """
        guess = self._guess(user, password, own, done)
        if self._right.get(guess.digest, 0.0) > self._loop.time():
            done(True)
            return
        refused = self._waiting.put(network_of(peer), guess)
        self._start()  # after that one in a thread may have its verdict at once
        if refused is not None:
            refused.done(None)

    def _guess(
        self, user: str, password: str, own: Mapping[str, ScramCredential], done: Callable[[bool | None], None]
    ) -> _Guess:
        # Everything is looked for, whoever it is, so that nobody takes longer.
        (stored_by, stored), (usual, dummy) = self._users.any_credential(user), self._users.any_dummy(user)
        held = own.get(user)
        found = held or stored
        mechanism = ScramMechanism.SHA_256 if held else stored_by if stored else usual
        credential = found or dummy
        digest = self._digest(user, password, credential)
        return _Guess(password, mechanism, credential, found is not None, digest, done)

    def _start(self) -> None:
        while self._running < self._most and len(self._waiting):
            self._running += 1
            self._derive(self._waiting.take())

    def _derive(self, guess: _Guess) -> None:
        future = self._loop.run_in_executor(self._threads, fits, guess.password, guess.mechanism, guess.credential)

        def verified(future: asyncio.Future[bool]) -> None:
            self._running -= 1
            if future.cancelled():
                return
            right = future.exception() is None and future.result() and guess.known
            if right:
                self._remember(guess.digest)
            guess.done(right)
            self._start()

        future.add_done_callback(verified)

    def _digest(self, user: str, password: str, credential: ScramCredential) -> bytes:
        text = b"\0".join((user.encode(), password.encode(), credential.salt, credential.stored_key))
        return hmac.digest(self._key, text, "sha256")

    def _remember(self, digest: bytes) -> None:
        if len(self._right) >= _REMEMBERED_MAX:
            self._right.clear()
        self._right[digest] = self._loop.time() + _REMEMBERED_SECONDS
