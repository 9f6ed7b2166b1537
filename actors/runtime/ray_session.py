"""This process's connection to a Ray, and the only way by which threads of a pool call Ray.

Ray has two habits that a thread in the background must be kept from:

- A call in a process that has left Ray starts one, or connects to any that it finds on the machine: somebody else's.
  So nothing is called once the connection has ended, and what is under way when it is about to end is waited for.
- A call to a Ray that has ended waits, for a minute or for ever. So each is made in a thread of its own, which is given
  up on as soon as the session knows that Ray is away. It knows by a plain connection to Ray's GCS, tried every
  second.

A GCS may come back (Ray can keep its state in Redis), so to be away is not for ever; a session that is over is.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast

import ray

from actors import OutsideError
from actors.runtime import ray_inside

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.4
_REFUSALS: Final = 3
_CONNECT_SECONDS: Final = 1.0
_UNDER_WAY_SECONDS: Final = 1.5
_OURS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
"""Errors that keep this process from connecting to anybody, and say nothing of Ray."""
_LEFT: Final = "this process has left its Ray"
_ENDS: Final = "the program ends"


class RayAwayError(OutsideError, ray.exceptions.RayError):  # type: ignore[misc]
    """Ray cannot be called: it is away, or this process has left it. The text says which."""


class RaySession:
    """One connection to a Ray, whose GCS is at `address` ("": not known, and never away).

    `connected` says whether this process is connected now, `reaches` whether something listens at an address.
    """

    def __init__(
        self,
        address: str,
        *,
        connected: Callable[[], bool] | None = None,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        self.address = address
        self._connected = connected or _is_connected
        self._reaches = reaches or reaches_gcs
        self._changed = threading.Condition()
        self._under_way = 0
        self._refusals = 0
        self._why_over = ""
        self._ended = threading.Event()

    # --- what it knows ---

    @property
    def over(self) -> str:
        """The reason why it has ended, in words; "" if it has not."""
        if not self._why_over and not self._connected():
            self.end(_LEFT)
        return self._why_over

    @property
    def away(self) -> str:
        """The reason why Ray cannot be called now, and the remedy, in one paragraph; "" if it can."""
        if self.over:
            return self._why_over
        return self._not_there if self._refusals >= _REFUSALS else ""

    @property
    def _not_there(self) -> str:
        return (
            f"the Ray cluster at {self.address} has ended, or cannot be reached: no member can be started there. Start "
            "it again (`coterie up`, `ray start`), and then this program, which has to connect anew. If only the "
            "network is cut, the pool goes on when it is mended; Ray ends a program that is cut off for a minute"
        )

    def look(self) -> None:
        """Look once whether Ray is there."""
        there = bool(self.over) or not self.address or self._reaches(self.address)
        with self._changed:
            self._refusals = 0 if there else self._refusals + 1
            said = self._refusals == _REFUSALS
            self._changed.notify_all()
        if said and not self.over:
            log.warning("%s", self.away)
            _let_exceptions_out()

    def watch(self) -> None:
        """Look until it is over."""
        while not self._ended.wait(_AGAIN_SECONDS if self._refusals else _LOOK_SECONDS):
            self.look()

    # --- calls ---

    def call(self, what: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call Ray, and return what it returns.

        Raises RayAwayError instead of starting a Ray, or waiting for one that is away.
        """
        return self.call_within(None, what, *arguments, **named)

    def call_within(self, limit_s: float | None, what: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """The same, and raise RayAwayError, too, if there is no answer within `limit_s`; the call goes on then."""
        call = _Call(self, lambda: what(*arguments, **named))
        if not self.over and self.address and not self._reaches(self.address):
            # The session may not be sure of it yet, but Ray would print that the call has failed.
            raise RayAwayError(self._not_there)
        with self._changed:
            if away := self.away:
                raise RayAwayError(away)
            self._under_way += 1
            threading.Thread(target=call.run, name="coterie-ray-call", daemon=True).start()
            self._changed.wait_for(lambda: call.done or self.away, limit_s)
            if not call.done:
                raise RayAwayError(self.away or f"the Ray cluster at {self.address} does not answer")
        return cast("T", call.result())

    def returned(self, call: _Call) -> None:
        """A call has its result."""
        with self._changed:
            call.done = True
            self._under_way -= 1
            self._changed.notify_all()

    def end(self, why: str = _LEFT) -> None:
        """Call Ray no more."""
        with self._changed:
            self._why_over = self._why_over or why
            self._ended.set()
            self._changed.notify_all()

    def settle(self, timeout_s: float = _UNDER_WAY_SECONDS) -> bool:
        """Wait for what is under way, since Ray may not be left meanwhile. Returns whether Ray was there."""
        if self.address and not self._reaches(self.address):
            return False
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, timeout_s)
        return True


class _Call:
    """One call and what came of it."""

    def __init__(self, session: RaySession, what: Callable[[], Any]) -> None:
        self._session = session
        self._what = what
        self._result: Any = None
        self._error: BaseException | None = None
        self.done = False

    def run(self) -> None:
        """Call, and keep the result or the error for the waiting thread."""
        try:
            self._result = self._what()
        except BaseException as error:  # whoever waits for the call raises it
            self._error = error
        finally:
            self._session.returned(self)

    def result(self) -> Any:
        """The result, or the error, raised again."""
        if self._error is not None:
            raise self._error
        return self._result


def _is_connected() -> bool:
    return bool(ray.is_initialized())


def reaches_gcs(address: str) -> bool:
    """True if something listens at HOST:PORT. Where this process itself cannot connect to anybody, it counts so."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
            return True
    except OSError as error:
        return error.errno in _OURS


# --- the session of this process ---

_lock = threading.Lock()
_present: RaySession | None = None


def session() -> RaySession:
    """That of this process's present connection. It is over at once if there is none."""
    global _present
    with _lock:
        if _present is None:
            atexit.register(_end_with_program)  # runs before Ray's own, which was registered earlier
        elif not _present.over:
            return _present
        _present = RaySession(_gcs_address())
        if not _present.over:
            threading.Thread(target=_present.watch, name="coterie-ray-session", daemon=True).start()
        return _present


def _gcs_address() -> str:
    if ray.is_initialized():
        with contextlib.suppress(Exception):  # a Ray client has no such thing
            return str(ray.get_runtime_context().gcs_address)
    return ""


def _end_with_program() -> None:
    """Ray's own end follows."""
    if _present is not None:
        _present.end(_ENDS)
        if not _present.settle():
            _take_farewell(ray_inside.SHORT_FAREWELL)


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """For a block that calls ray.shutdown: no thread of a pool calls Ray from now on."""
    left = _present if _present is not None and not _present.over else RaySession(_gcs_address())
    left.end()
    if left.settle():
        yield
        return
    _take_farewell(ray_inside.SHORT_FAREWELL)
    try:
        yield
    finally:
        _take_farewell({})


def _take_farewell(variables: Mapping[str, str]) -> None:
    """Have Ray read its settings again, with these: it waits five seconds for a GCS to take its last figures."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        ray_inside.read_settings_again()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _let_exceptions_out() -> None:
    """Have a program that ends by an exception not report it to Ray, which is away: Ray would wait, and then end it."""
    with contextlib.suppress(AttributeError):  # another Ray than we know
        ray_inside.let_exceptions_out()
