"""The controller, at the place where the methods of controllers of earlier builds look for it.

When Ray starts a controller again, it has the methods of its first process; all that they name is what is installed
now. So this stays until no cluster is left that was started with them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from actors.controller.acceptor import Acceptor, InForce
from actors.controller.active import ActiveController
from actors.controller.metadata.log import Log
from actors.controller.sessions import Launcher
from actors.links.secret import Secrets
from actors.links.versions import at_level
from actors.runtime.environment import REAL, Environment
from actors.settings import BrokerConfig


class ControllerServer(ActiveController):
    """The only controller of a cluster, with a port of its own. `options` are those of an ActiveController."""

    def __init__(
        self,
        metadata_log: Log,
        config: BrokerConfig,
        secrets: Secrets,
        launcher: Launcher,
        loop: asyncio.AbstractEventLoop,
        environment: Environment = REAL,
        **options: Any,
    ) -> None:
        in_force = InForce(config, secrets)
        super().__init__(metadata_log, in_force, launcher, loop, environment, **options)
        self._acceptor = Acceptor(
            *(in_force, loop, environment.chance),
            spoken=lambda: at_level(metadata_log.committed.level),
            speaker=lambda protocol: None if protocol.peer == "voter" else self,
        )

    async def listen(self, host: str) -> int:
        """Accept connections at any free port of `host`, and begin; returns the port. Raises OSError, TlsError."""
        port = await self._acceptor.listen(host)
        self.begin((host, port))
        return port

    def close_unauthenticated(self) -> None:
        """Close all connections by a secret that is valid no longer."""
        self._acceptor.close_unauthenticated()

    def close(self) -> None:
        """Stop listening, close all connections, and give up the log."""
        super().close()
        self._acceptor.close()
        self.log.close()
