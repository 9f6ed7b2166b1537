"""The entrance for visitors. A name and password are proved at a broker, by logging in there: we keep no users.

A name and password are proved at a broker, by logging in there: we keep no users of our own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from actors import OutsideError
from actors.client.errors import (
    AuthenticationError,
    BrokerResponseError,
    ClusterAuthorizationError,
    ConfigurationError,
    KafkaError,
)
from actors.console.brokers import BrokerDesk
from actors.console.rights import Entitled
from actors.console.sessions import Visitor
from actors.console.source import Source
from actors.runtime.environment import Clock
from actors.security.acl import AclFilter
from actors.settings.secret import Secret
from actors.wire.errors import ErrorCode

_SCRAM: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
PASSWORD_MECHANISMS: Final = ("PLAIN", *_SCRAM)
_CREDENTIALS: Final = (
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_password_file",
    "sasl_password_env",
    "sasl_oauth_token_file",
    "sasl_oauth_token_provider",
)
"""The settings by which the console itself logs in. A visitor is never that."""

SourceOf = Callable[[BrokerDesk], Source]
"""The source of a visitor's views, before his rights: the same for all, or made of his Desk."""


class EntranceError(OutsideError):
    """He is not let in. The text is for him, and does not say whether there is such a user."""


class Entrance(Protocol):
    """The entrance for visitors."""

    @property
    def anybody(self) -> Visitor | None:
        """The visitor that everybody is; None where a login is needed."""
        ...

    async def log_in(self, user: str, password: Secret) -> Visitor:
        """The visitor of this name. Raises EntranceError."""
        ...


class Open:
    """Everybody is the same visitor."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor

    @property
    def anybody(self) -> Visitor:
        """The one visitor."""
        return self._visitor

    async def log_in(self, user: str, password: Secret) -> Visitor:
        """The one visitor."""
        return self._visitor


class ByLogin:
    """A visitor logs in at a broker with SCRAM or PLAIN, and is shown what he may see there.

    A user's password may be kept for one kind of SCRAM alone, so both are tried, that of `sasl_mechanism` first.
    """

    def __init__(self, settings: Mapping[str, Any], source_of: SourceOf, clock: Clock) -> None:
        self._settings = {key: value for key, value in settings.items() if key not in _CREDENTIALS}
        self._source_of = source_of
        self._clock = clock
        first = str(settings["sasl_mechanism"])
        self._mechanisms = (first, *(each for each in _SCRAM if first in _SCRAM and each != first))

    @property
    def anybody(self) -> None:
        """Nobody comes in without a name."""

    async def log_in(self, user: str, password: Secret) -> Visitor:
        """The visitor of this name. Raises EntranceError."""
        login = {"sasl_plain_username": user, "sasl_plain_password": password.reveal()}
        for mechanism in self._mechanisms:
            desk = await self._known_as({**self._settings, **login, "sasl_mechanism": mechanism})
            if desk is not None:
                return Visitor(user, Entitled(self._source_of(desk), desk, self._clock), desk)
        raise EntranceError("The name or the password is wrong.")

    async def _known_as(self, settings: Mapping[str, Any]) -> BrokerDesk | None:
        """The desk of who logs in so; None if no broker knows him, or the broker has no such mechanism."""
        try:
            desk = await _desk(settings, self._clock)
        except (ConfigurationError, ValueError):
            return None
        try:
            await asyncio.to_thread(desk.admin.describe_cluster)
        except AuthenticationError:
            await desk.close()
            return None
        except KafkaError as error:
            await desk.close()
            raise EntranceError(f"The brokers cannot be asked now: {error}") from error
        except BaseException:  # cancelled, too
            await desk.close()
            raise
        return desk


async def entrance(settings: Mapping[str, Any], source_of: SourceOf, clock: Clock) -> Entrance:
    """The entrance that fits the brokers: a login if clients must log in, rights if brokers check any.

    `settings` are those of a client. Raises EntranceError if brokers are such that nobody could prove a password.
    """
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    if protocol.startswith("SASL_"):
        mechanism = settings.get("sasl_mechanism")
        if mechanism not in PASSWORD_MECHANISMS:
            raise EntranceError(f"the console asks for passwords, and {mechanism} has none: give a listener with SCRAM")
        return ByLogin(settings, source_of, clock)
    desk = await _desk(settings, clock)
    try:
        checked = await asyncio.to_thread(_checks_rights, desk)
    except KafkaError as error:
        await desk.close()
        raise EntranceError(f"the brokers cannot be asked; do they want TLS or a login? {error}") from error
    except BaseException:  # cancelled, too
        await desk.close()
        raise
    if checked and protocol == "SSL":
        await desk.close()
        raise EntranceError(
            "these brokers know clients by certificates, which no visitor of a console can show: give a "
            "listener with SASL_SSL"
        )
    source = source_of(desk)
    return Open(Visitor(None, Entitled(source, desk, clock) if checked else source, desk))


def _checks_rights(desk: BrokerDesk) -> bool:
    """True if the brokers have an authorizer: without one, Kafka answers that security is disabled."""
    try:
        desk.admin.describe_acls(AclFilter())
    except ClusterAuthorizationError:
        return True
    except BrokerResponseError as error:
        if error.error_code == ErrorCode.SECURITY_DISABLED:
            return False
        raise
    return True


async def _desk(settings: Mapping[str, Any], clock: Clock) -> BrokerDesk:
    """A desk; none that nobody closes, if this is cancelled. Raises ConfigurationError, ValueError."""
    making = asyncio.ensure_future(asyncio.to_thread(BrokerDesk, settings, clock))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        with suppress(ConfigurationError, ValueError):
            await (await making).close()
        raise


async def shut(entrance: Entrance) -> None:
    """Close what an entrance has open. May be done twice."""
    if entrance.anybody is not None:
        await leave(entrance.anybody)


async def leave(visitor: Visitor) -> None:
    """Close what a visitor has open."""
    await visitor.desk.close()
