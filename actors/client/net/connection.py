"""One connection to a broker: `connect` makes it, asks for the versions that the broker serves, and logs in."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.client.errors import (
    AuthenticationError,
    HungUpError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
)
from actors.client.net.access import OPEN_ACCESS, Access
from actors.client.net.exchange import Exchange, Lost
from actors.client.net.versions import Ranges, choose_version
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ApiVersionsRequest

# The first request; a broker that lacks this version answers UNSUPPORTED_VERSION in version 0, with those it has.
_API_VERSIONS: Final = 3
_STALE: Final = "the login of this connection has to be renewed first"


@dataclass(frozen=True, slots=True)
class Broker:
    """The other end of an exchange, as a login sees it. `timeout_ms` is that of connecting."""

    exchange: Exchange
    versions: Ranges
    timeout_ms: int

    async def ask(self, request: ApiMessage, version: int) -> Any:
        """The answer to a request in the course of a login."""
        return await self.exchange.call(request, version, self.timeout_ms)

    async def ask_raw(self, token: bytes) -> bytes:
        """The answer to a token that is sent without a header."""
        return await self.exchange.call_raw(token)

    async def log_in(self, access: Access) -> float:
        """Log in, or prove it again. Returns the time of the loop's clock (seconds) from which it has to be renewed."""
        lifetime_ms = await access.login.log_in(self)
        if not lifetime_ms:
            return math.inf
        return asyncio.get_running_loop().time() + access.renew_after_ms(lifetime_ms) / 1000


class Connection:
    """A connection that is logged in. `call` sends a request and returns a future of its answer.

    A login that ends after a while (KIP-368) makes the connection `stale`, and `renew` makes it usable again. `clock`
    is that of the loop, and `renew_at_s` the time from which it is stale.
    """

    def __init__(self, broker: Broker, access: Access, clock: Callable[[], float], renew_at_s: float) -> None:
        self._broker = broker
        self._exchange = broker.exchange
        self._versions = broker.versions
        self._access = access
        self._clock = clock
        self._renew_at_s = renew_at_s

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return self._exchange.in_flight

    @property
    def is_usable(self) -> bool:
        return not self._exchange.is_lost and self._clock() < self._renew_at_s

    @property
    def is_stale(self) -> bool:
        """True if it stands, but its login has to be renewed first."""
        return not self._exchange.is_lost and self._clock() >= self._renew_at_s

    async def renew(self) -> None:
        """Log in again, once all answers have come. If that fails, it raises and the connection is closed."""
        try:
            await self._exchange.all_answered()
            async with asyncio.timeout(self._broker.timeout_ms / 1000):
                self._renew_at_s = await self._broker.log_in(self._access)
        except (TimeoutError, IllegalStateError) as error:
            self.close()
            raise KafkaConnectionError(f"the login could not be renewed: {str(error) or 'no answer'}") from error
        except KafkaError as error:
            self.close(error)
            raise
        except BaseException:  # cancelled, too: the login is half done
            self.close()
            raise

    def call(
        self, request: ApiMessage, timeout_ms: int, min_version: int = 0, *, max_version: int | None = None
    ) -> asyncio.Future[Any]:
        """Send `request` in the highest common version. Raises UnsupportedVersionError, KafkaConnectionError."""
        if self._clock() >= self._renew_at_s:
            raise KafkaConnectionError(_STALE)
        version = choose_version(type(request), self._versions, min_version, max_version)
        return self._exchange.call(request, version, timeout_ms)

    def tell(self, request: ApiMessage, min_version: int = 0) -> None:
        """Send a request that is not answered (Produce with acks=0)."""
        if self._clock() >= self._renew_at_s:
            raise KafkaConnectionError(_STALE)
        self._exchange.send(request, choose_version(type(request), self._versions, min_version))

    async def written(self) -> None:
        """Wait until what `tell` has sent is with the operating system. Raises KafkaConnectionError if it breaks."""
        await self._exchange.written()

    def close(self, error: KafkaError | None = None) -> None:
        """Close the connection; open calls fail with `error`."""
        self._exchange.close(error)


def _lost_connection() -> Connection:
    exchange = Exchange("", lambda error: None)
    exchange.close()
    return Connection(Broker(exchange, {}, 0), OPEN_ACCESS, lambda: 0.0, math.inf)


NO_CONNECTION: Final = _lost_connection()
"""In the place of a connection that is not there: it is lost."""


async def connect(
    host: str, port: int, client_id: str, on_lost: Lost, timeout_ms: int, access: Access = OPEN_ACCESS
) -> Connection:
    """Connect, ask for the versions that the broker serves, and log in. Without `access`: plain, and no login.

    `on_lost` is called once when the connection ends, also if that is before it is there. Raises KafkaConnectionError,
    AuthenticationError.
    """

    def make() -> Exchange:
        return Exchange(client_id, on_lost, has_tls=access.has_tls, logs_in=access.logs_in)

    try:
        async with asyncio.timeout(timeout_ms / 1000):
            exchange = await access.connect(make, host, port)
            try:
                broker = Broker(exchange, await _served(exchange, timeout_ms), timeout_ms)
                renew_at_s = await broker.log_in(access)
            except BaseException:  # cancelled, too: the connection would stay open
                exchange.close()
                raise
            exchange.trust()
            return Connection(broker, access, asyncio.get_running_loop().time, renew_at_s)
    except TimeoutError as error:
        raise KafkaConnectionError(f"no connection to {host}:{port} within {timeout_ms} ms") from error
    except AuthenticationError as error:
        raise type(error)(f"{host}:{port}: {error}") from error
    except HungUpError as error:
        raise error if f"{host}:{port}" in str(error) else HungUpError(f"{host}:{port}: {error}") from error
    except (OSError, ValueError, IllegalStateError) as error:
        raise KafkaConnectionError(f"cannot connect to {host}:{port}: {error}") from error


async def _served(exchange: Exchange, timeout_ms: int) -> Ranges:
    """The versions of each request that the broker serves."""
    ask = ApiVersionsRequest(client_software_name="coterie", client_software_version="0.1.0")
    answer = await exchange.call(ask, _API_VERSIONS, timeout_ms)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = await exchange.call(ask, 0, timeout_ms)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
