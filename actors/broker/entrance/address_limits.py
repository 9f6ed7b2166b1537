"""The limits on connections of each address: `max.connections.per.ip` and its overrides, whose names are looked up."""

from __future__ import annotations

import asyncio
import ipaddress
import logging

from actors.broker.context import BrokerContext
from actors.security.acl import normal_host, unscoped
from actors.settings import BrokerConfig
from actors.settings.limits import overrides_of

log = logging.getLogger(__name__)


class AddressLimits:
    """The limits by address. Those of names hold once the names have been looked up."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._config = context.config
        self._limits: dict[str, int] = {}
        self._looking_up: asyncio.Task[None] | None = None

    def of(self, peer: str) -> int:
        """The most connections that an address may have."""
        most = self._limits.get(peer, self._limits.get(unscoped(normal_host(peer))))
        return self._context.config.integer("max.connections.per.ip") if most is None else most

    async def read(self) -> None:
        """Go by the settings as they are. A name that cannot be looked up has no limit of its own."""
        overrides = overrides_of(_text(self._context.config))
        limits: dict[str, int] = {}
        for host, most in overrides.items():
            for address in await self._addresses(host):
                limits[address] = most
        self._limits = limits

    def tick(self) -> None:
        """The setting may have changed."""
        before, self._config = self._config, self._context.config
        if before is not self._config and _text(before) != _text(self._config):
            self.close()
            self._looking_up = self._context.loop.create_task(self.read())

    def close(self) -> None:
        """Look nothing up any more."""
        if self._looking_up is not None:
            self._looking_up.cancel()

    async def _addresses(self, host: str) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        try:
            found = await self._context.loop.getaddrinfo(host, None)
        except (OSError, UnicodeError) as error:
            log.warning("max.connections.per.ip.overrides: %s cannot be looked up: %s", host, error)
            return []
        return list(dict.fromkeys(str(each[4][0]) for each in found))


def _text(config: BrokerConfig) -> str | None:
    return config.text("max.connections.per.ip.overrides")
