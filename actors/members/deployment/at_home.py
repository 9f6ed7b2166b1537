"""Pools that were deployed on the Ray of their brokers: they begin again when the cluster does."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any, Final

from actors.client import spellings
from actors.client.errors import KafkaError
from actors.members.deployment.revival import revive
from actors.members.pools.plan import PoolError
from actors.settings.properties import properties

log = logging.getLogger(__name__)

_JOIN_SECONDS: Final = 10.0


class Homecoming:
    """Starts the supervisors of a cluster's pools, in a thread: the cluster serves already.

    `administrator` is the properties file of who may read the topic, if brokers ask for a login.
    """

    def __init__(self, bootstrap_servers: str, administrator: Path) -> None:
        self._servers = bootstrap_servers
        self._administrator = administrator
        self._thread = threading.Thread(target=self._run, name="coterie-pools", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until it is done, for ten seconds at most."""
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            found = revive(self._servers, (), at_home=True, **administrator_settings(self._administrator))
        except (KafkaError, PoolError, OSError) as error:
            log.warning("deployed pools do not begin again: %s; DeployedPool.revive starts them", error)
        else:
            log.info("%d deployed pools begin again", len(found))


def administrator_settings(administrator: Path) -> dict[str, Any]:
    """The settings of a client by a properties file; none without the file."""
    found: dict[str, Any] = {}
    if administrator.exists():
        for _, key, value in properties(administrator.read_text()):
            if spellings.understood(key):
                found |= spellings.of(key, value)
    return found
