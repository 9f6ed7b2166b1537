"""The TLS of a broker's listeners: the context that new connections get, and how it follows the files it was made of.

Files are compared again and again. A change that may be made takes effect for connections accepted from then on; one
that may not leaves the old context in force, and is logged once. Connections keep what they began with.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from actors import OutsideError
from actors.broker.spec import StartError
from actors.security.certificates import (
    EXPIRES_SOON_DAYS,
    KeyStore,
    MismatchError,
    StoreError,
    TrustStore,
    key_store,
    trust_store,
)
from actors.security.principals import MappingRules
from actors.security.tls import Negotiation, server_context
from actors.settings import ListenerConfig, SecurityProtocol
from actors.settings.secret import Secret

log = logging.getLogger(__name__)

PASSWORD_FILE: Final = "coterie.ssl.key.password.file"
FILES: Final = ("ssl.keystore.location", "ssl.truststore.location", PASSWORD_FILE)
_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_DAY_MS: Final = 86_400_000
_FILE_BYTES_MAX: Final = 16 << 20
_MISMATCH_MS: Final = 60_000  # both halves of a pair have to be replaced within it

Stamp: TypeAlias = tuple[int, int, int] | None
"""The marks that tell a file from its successor: inode, time of change in ns, size. None: there is none, or no name."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The stores made of the files as they were."""

    keys: KeyStore
    trusted: TrustStore | None
    context: ssl.SSLContext
    names: tuple[str | None, ...]
    stamps: tuple[Stamp, ...]


class ListenerTls:
    """One listener's. `config` gives the listener's settings as they are now. Raises StartError.

    `make_own` makes the certificate of a broker that is to have one of its own. No file is taken out of the data
    directory `data`, where clients decide what is in most of them.
    """

    def __init__(
        self,
        listener: str,
        protocol: SecurityProtocol,
        config: Callable[[], ListenerConfig],
        now_ms: Callable[[], int],
        make_own: Callable[[], KeyStore] | None = None,
        data: Path | None = None,
    ) -> None:
        self._data = data
        self._own = cache(make_own) if make_own else None
        self._listener = listener
        self._config = config
        self._now_ms = now_ms
        given = config()
        self._client_auth = _client_auth(listener, protocol, given)
        try:
            self._negotiation = Negotiation.of(given.__getitem__)
            self.rules = _rules(given)
            self._loaded = self.load(given)
        except OutsideError as error:
            raise StartError(f"listener {listener}: {error}") from error
        self._bad: tuple[Stamp, ...] | None = None  # the stamps of files tried in vain, which need not be tried again
        self._bad_since: int | None = None
        self._warned = -_DAY_MS
        self.failure: str | None = None
        """The reason why the files as they are now are not in force; None if they are."""
        self.warn_of_expiry()
        _warn_of_readers(listener, given)

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context of a connection that is accepted now."""
        return self._loaded.context

    @property
    def days_left(self) -> float:
        """The number of days for which the certificate in force is valid."""
        return self._loaded.keys.days_left(self._now_ms())

    def load(self, given: ListenerConfig) -> Loaded:
        """Read the files that the settings name. Blocks. Raises StoreError, TlsError."""
        names, stamps = _names(given), _stamps(given)
        self._check_places(given)

        def get(name: str) -> Any:
            return _password(given) if name == "ssl.key.password" else given[name]

        keys = key_store(get, _read, self._now_ms())
        if keys is None and self._own is not None and given.boolean("coterie.ssl.own.certificates"):
            keys = self._own()
        if keys is None:
            raise StoreError("TLS needs a certificate: set ssl.keystore.location to a PEM file with it and its key")
        trusted = trust_store(get, _read)
        context = server_context(self._negotiation, keys, trusted, self._client_auth)
        return Loaded(keys, trusted, context, names, stamps)

    def _check_places(self, given: ListenerConfig) -> None:
        if self._data is None:
            return
        inside = os.path.realpath(self._data)
        for name in FILES:
            if given[name] and Path(os.path.realpath(given[name])).is_relative_to(inside):
                raise StoreError(f"{name}={given[name]} is in the data directory {inside}: put it elsewhere")

    # --- changes ---

    @property
    def is_outdated(self) -> bool:
        """True if the settings name other files by now."""
        return _names(self._config()) != self._loaded.names

    def replacement(self, given: ListenerConfig) -> Loaded:
        """The stores that these settings would put in force. Blocks. Raises StoreError, TlsError if that may not be."""
        found, old = self.load(given), self._loaded
        if (found.trusted is None) != (old.trusted is None):
            raise StoreError("a trust store cannot be added or taken away while the broker runs")
        before, after = old.keys.subject, found.keys.subject
        if before != after and not given["ssl.allow.dn.changes"]:
            raise StoreError(f"the subject would change from {before} to {after}, and ssl.allow.dn.changes is false")
        lost = old.keys.alternative_names - found.keys.alternative_names
        if lost and not given["ssl.allow.san.changes"]:
            names = ", ".join(sorted(lost))
            raise StoreError(f"the certificate would lose {names}, and ssl.allow.san.changes is false")
        return found

    def take(self, loaded: Loaded) -> None:
        """Have connections from now on use this."""
        self._loaded = loaded
        self._bad = self._bad_since = self.failure = None
        log.info("listener %s: new certificates, of %s", self._listener, loaded.keys.subject)
        self.warn_of_expiry()

    async def check(self) -> None:
        """Take over what has changed since the last time, if it may be."""
        given = self._config()
        loop = asyncio.get_running_loop()
        stamps = await loop.run_in_executor(None, _stamps, given)
        if stamps == self._loaded.stamps:
            self._bad = self._bad_since = self.failure = None
        elif stamps != self._bad:
            try:
                self.take(await loop.run_in_executor(None, self.replacement, given))
            except OutsideError as error:
                self._refuse(stamps, error)

    def _refuse(self, stamps: tuple[Stamp, ...], error: OutsideError) -> None:
        now = self._now_ms()
        if self._bad_since is None:
            self._bad_since = now
        self.failure = str(error)
        if not isinstance(error, MismatchError) or now - self._bad_since >= _MISMATCH_MS:
            self._bad = stamps
            log.error("listener %s keeps its certificates, because of the new ones: %s", self._listener, error)

    def warn_of_expiry(self) -> None:
        """Once a day, if the certificate in force expires soon or has expired."""
        days, now = self.days_left, self._now_ms()
        if days < EXPIRES_SOON_DAYS and now - self._warned >= _DAY_MS:
            self._warned = now
            what = f"expires in {days:.0f} days" if days > 0 else "has expired"
            log.warning("listener %s: the certificate of %s %s", self._listener, self._loaded.keys.subject, what)


def _client_auth(listener: str, protocol: SecurityProtocol, given: ListenerConfig) -> str:
    """On a listener with SASL the unprefixed setting does not count, as in Kafka."""
    key = "ssl.client.auth"
    if not protocol.sasl:
        return str(given[key])
    own = given.own(key)
    if own is None and given[key] != "none":
        name = f"listener.name.{listener.lower()}.{key}"
        log.warning("listener %s asks for no certificates: with SASL, only %s=%s would do", listener, name, given[key])
    return str(own or "none")


def _rules(given: ListenerConfig) -> MappingRules:
    key = "ssl.principal.mapping.rules"
    try:
        return MappingRules.parse(given.text(key) or "")
    except ValueError as error:
        raise StoreError(f"{key}: {error}") from None


def _password(given: ListenerConfig) -> Secret | None:
    path: str | None = given[PASSWORD_FILE]
    if path is None:
        password: Secret | None = given["ssl.key.password"]
        return password
    try:
        return Secret(_read(path).decode().strip("\r\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{PASSWORD_FILE}={path} cannot be read: {error}") from None


def _warn_of_readers(listener: str, given: ListenerConfig) -> None:
    """Warn if others may read the key, or its password."""
    for name in ("ssl.keystore.location", PASSWORD_FILE):
        path: str | None = given[name]
        with suppress(OSError):  # it was there a moment ago
            if path and os.stat(path).st_mode & _OTHERS:
                log.warning("listener %s: others may read %s=%s: chmod 600 it", listener, name, path)


def _read(path: str) -> bytes:
    """The bytes of a file. Clients that may change settings name it: no device, no pipe, nothing that fills memory."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        data = file.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        raise OSError(f"it has more than {_FILE_BYTES_MAX} bytes")
    return data


def _names(given: ListenerConfig) -> tuple[str | None, ...]:
    return tuple(given[name] for name in FILES)


def _stamps(given: ListenerConfig) -> tuple[Stamp, ...]:
    return tuple(map(_stamp, _names(given)))


def _stamp(path: str | None) -> Stamp:
    try:
        found = os.stat(path) if path else None  # follows symbolic links
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found else None
