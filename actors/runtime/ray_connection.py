"""Connect this process to a running Ray: whether one is there, and which token it asks for. Errors are one line.

Ray's own client leaves three gaps, which are closed here:

- It uses the token in the user's home only for a Ray that it finds by itself, not for an address it is given, though
  `ray start` asks for this token wherever there is one.
- It does not say that a token was refused.
- It looks for a server that is not there for a minute and a half.

And one that its C++ opens: a process that is to give a token and has none is ended, with a trace of its stack. By
default, tokens are given depending on the Ray: to 2.60 only where RAY_AUTH_MODE says so, or a local Ray is started.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from actors import OutsideError
from actors.runtime import ray_inside, ray_words
from actors.runtime.signals import sigterm_for_python

_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_CONNECT_SECONDS = 1.5
_ANSWER_SECONDS = 10.0  # longer than for connecting: a Ray that is short of CPU is a Ray
# An HTTP/2 client begins with this text and its settings, here none; a server answers with its own (RFC 9113, 3.4).
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_FRAME_HEADER, _TYPE_AT, _SETTINGS = 9, 3, 4

_before: dict[str, str | None] = {}  # environment variables set by use_token, and their values before


class ClusterError(OutsideError, RuntimeError):
    """A cluster cannot be started, found or stopped; the text says why and what to do."""


def connect(ray_address: str, words: Path | None = None, **options: Any) -> None:
    """Connect to the Ray at `ray_address`. Raises ClusterError.

    Ray's output goes to the file `words`; `options` are those of ray.init.
    """
    host, _, port = ray_address.rpartition(":")
    try:
        if host and "://" not in host and port.isdigit():
            _check_there(ray_address, host.strip("[]"), int(port))
            _be_let_in(ray_address)
        with ray_words.kept(words), sigterm_for_python():
            ray.init(address=ray_address, logging_level="ERROR", log_to_driver=False, **options)
    except ClusterError:
        forget_token()
        raise
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        forget_token()
        raise ClusterError(f"cannot connect to Ray at {ray_address}: {_first_line(error)}") from None


def asks_for_token() -> bool:
    """True if this process gives its Ray a token, and so may ask others for it."""
    return ray_inside.gives_token()


def openness(ray_address: str, *, token: bool) -> list[str]:
    """The reasons why this Ray is open to more people than it should: no `token`, or a public address."""
    found = []
    if not token:
        found.append(
            "it asks for no token, so whoever reaches its ports runs code as its user: set RAY_AUTH_MODE=token"
        )
    host = ray_address.rpartition(":")[0].strip("[]")
    with contextlib.suppress(OSError, ValueError):
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
        if any(ipaddress.ip_address(each).is_global for each in addresses):
            found.append(f"its address {host} is a public one: have a firewall keep others from it")
    return found


def openness_lines(ray_address: str, *, token: bool) -> list[str]:
    """The same as lines to be told."""
    return [f"warning: the Ray at {ray_address}: {each}" for each in openness(ray_address, token=token)]


def looked_at(ray_address: str) -> list[str]:
    """`openness` of a Ray that this process is not connected to. Raises ClusterError."""
    host, _, port = ray_address.rpartition(":")
    if not port.isdigit():
        raise ClusterError(f"{ray_address} is no address: HOST:PORT is")
    _check_there(ray_address, host.strip("[]"), int(port))
    return openness(ray_address, token=not _lets_anybody_in(ray_address))


def use_token(path: Path | None = None) -> None:
    """Have Ray in this process give and ask for the token in `path`, until `forget_token`; None: the user's own."""
    _use({_MODE: "token"} | ({_TOKEN_PATH: str(path)} if path is not None else {}))


def _use(values: dict[str, str]) -> None:
    for name, value in values.items():
        _before.setdefault(name, os.environ.get(name))
        os.environ[name] = value
    _look_again()


def forget_token() -> None:
    """Undo `use_token`, or what `connect` has set, because the next Ray may have another token, or none."""
    if not _before:
        return
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before.clear()
    _look_again()


def _look_again() -> None:
    """Ray has read its environment when it was imported."""
    ray_inside.read_settings_again()
    ray_inside.forget_read_token()


def _check_there(ray_address: str, host: str, port: int) -> None:
    """Raise ClusterError unless the address answers in HTTP/2, as every Ray does."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.sendall(_PREFACE)
            header = connection.recv(_FRAME_HEADER, socket.MSG_WAITALL)
    except OSError as error:
        raise ClusterError(f"no Ray answers at {ray_address} ({error.strerror or error}): is it running?") from None
    if len(header) < _FRAME_HEADER or header[_TYPE_AT] != _SETTINGS:
        raise ClusterError(f"what answers at {ray_address} is no Ray: is that the port of `ray start --head --port`?")


def _be_let_in(ray_address: str) -> None:
    """Use the user's token if this Ray asks for one. Raises ClusterError if it lets us in neither with nor without."""
    _look_again()  # the program may have set something since it imported Ray
    missing = _missing_token()
    if missing is not None and asks_for_token() and _MODE in os.environ:
        raise ClusterError(f"{_MODE}={os.environ[_MODE]}, but {missing}: {_token_fix()}")
    free = _lets_anybody_in(ray_address)
    mode = mode_for(ray_address, os.environ.get(_MODE), missing, free=free, given=asks_for_token())
    if mode is not None:
        _use({_MODE: mode})
    if not free and not _lets_in(ray_address):
        raise ClusterError(f"the Ray at {ray_address} does not take the token in {_token_place()}: {_token_fix()}")


def mode_for(ray_address: str, said: str | None, missing: str | None, *, free: bool, given: bool) -> str | None:
    """The RAY_AUTH_MODE that lets this process into a Ray, where the user has `said` one; None: leave it as it is.

    `missing`: why there is no token; `free`: whether that Ray asks for none; `given`: whether this process gives one as
    it is. Raises ClusterError if no mode does.
    """
    if free:
        return "disabled" if given and missing is not None else None  # a token is the default, and nobody has made one
    asks = f"the Ray at {ray_address} asks for a token"
    if said is not None and not given:
        raise ClusterError(f"{asks}, and {_MODE}={said} holds it back: unset {_MODE}")
    if missing is not None:
        raise ClusterError(f"{asks}, but {missing}: {_token_fix()}")
    return None if given else "token"


def _lets_anybody_in(ray_address: str) -> bool:
    """True if the Ray answers a process that gives no token.

    Only for a process that is not connected: it gives none meanwhile.
    """
    before = os.environ.get(_MODE)
    os.environ[_MODE] = "disabled"
    try:
        _look_again()
        return _lets_in(ray_address)
    finally:
        if before is None:
            del os.environ[_MODE]
        else:
            os.environ[_MODE] = before
        _look_again()


def _lets_in(ray_address: str) -> bool:
    """True if the Ray answers this process with the token that is in use now, if any. Raises RayError."""
    try:
        with _silent():
            ray_inside.knock(ray_address)
    except ray.exceptions.AuthenticationError:
        return False
    return True


def _token_place() -> str:
    """The place of the user's token for Ray, in words."""
    if _TOKEN in os.environ:
        return _TOKEN
    return os.environ.get(_TOKEN_PATH) or str(Path.home() / ".ray" / "auth_token")


def _token_fix() -> str:
    if _TOKEN in os.environ:
        return f"set {_TOKEN} to its token"  # a file would not be looked at
    return f"set {_TOKEN_PATH} to a file with its token, which for an embedded cluster is DATA_DIR/ray-token"


def _missing_token() -> str | None:
    """The reason why the user has no token, in words; None if there is one."""
    ray_inside.forget_read_token()
    with contextlib.suppress(ray.exceptions.AuthenticationError):
        if ray_inside.has_token():
            return None
    return f"there is none in {_token_place()}"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Within the block, standard error goes nowhere: there Ray's C++ complains of a token that is refused."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
