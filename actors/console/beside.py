"""The console that a Monitor serves in its own process, as the settings `coterie.console.*` say."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from actors import CoterieError
from actors.client import spellings
from actors.console.app import Options
from actors.console.entrance import Entrance, EntranceError, entrance, shut
from actors.console.server import ConsoleError, Place, served
from actors.console.source import Shared, Source, SourceError
from actors.links.views import GetOverview, Overview
from actors.runtime.data_folder import place_of
from actors.runtime.environment import Environment
from actors.settings import BrokerConfig
from actors.settings.properties import parse_properties

log = logging.getLogger(__name__)

LEFT_FOR_CLIENTS: Final = "client.properties"
"""A file that a secure cluster leaves in its data directory: here only for the way to the brokers."""
_AGAIN_S: Final = 1.0


def reached_by(file: Path) -> dict[str, Any]:
    """The settings of a client by a properties file, as far as they mean something. Raises OSError, and KafkaError."""
    found: dict[str, Any] = {}
    for key, value in parse_properties(file.read_text(encoding="utf-8")).items():
        if key == "bootstrap.servers":
            found["bootstrap_servers"] = value
        elif spellings.understood(key):
            found |= spellings.of(key, value)
    return found


async def serve_beside(source: Source, config: BrokerConfig, data_dir: Path, environment: Environment) -> None:
    """Serve a console over these views until cancelled; nothing, if no port is set. An error is logged."""
    if config["coterie.console.port"] is None:
        return
    shared = Shared(source, environment.clock)
    async with AsyncExitStack() as opened:
        try:
            door = await _entrance(shared, config, data_dir, environment)
            opened.push_async_callback(shut, door)
            console = served(door, _options(config), _place(config), environment)
        except (ConsoleError, EntranceError, CoterieError, OSError, ValueError) as error:
            log.error("there is no console: %s", error)
            return
        except Exception:  # whatever it is, the Monitor goes on without
            log.exception("there is no console")
            return
        log.info("the console is at %s", console.address)
        await console.run()


async def _entrance(source: Shared, config: BrokerConfig, data_dir: Path, environment: Environment) -> Entrance:
    """The entrance, once brokers can be asked which they need."""
    named = config["coterie.console.client.config"]
    file = place_of(data_dir) / LEFT_FOR_CLIENTS if named is None else Path(str(named))
    settings = reached_by(file) if named is not None or file.exists() else {}
    while True:
        try:
            if addresses := _addresses(await source.view(GetOverview(events=0))):
                given = {"bootstrap_servers": addresses, **settings}
                return await entrance(given, lambda _: source, environment.clock)
        except (EntranceError, SourceError) as error:
            log.info("the console waits: %s", error)
        await asyncio.sleep(_AGAIN_S)


def _addresses(overview: Overview) -> str:
    return ",".join(f"{each.host}:{each.port}" for each in overview.brokers if each.alive)


def _options(config: BrokerConfig) -> Options:
    names, proxies = config["coterie.console.names"] or (), config["coterie.console.proxies"] or ()
    return Options(writes=bool(config["coterie.console.write"]), names=tuple(names), proxies=tuple(proxies))


def _place(config: BrokerConfig) -> Place:
    pem = config["coterie.console.ssl.keystore.location"]
    host = config.text("coterie.console.host") or "127.0.0.1"
    return Place(host, config.integer("coterie.console.port"), None if pem is None else Path(str(pem)))
