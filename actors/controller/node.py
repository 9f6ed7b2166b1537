"""One of a cluster's controllers: it keeps the metadata log, and is the controller while it leads the log's quorum.

Alone it leads from its start to its end. Of several, one leads at a time; the others only follow, and hang up on
brokers, which look for another then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from actors.controller.acceptor import Acceptor, InForce, Speaker
from actors.controller.active import ActiveController
from actors.controller.metadata.commits import NotControllerError
from actors.controller.metadata.log import Log
from actors.controller.sessions import Launcher
from actors.controller.voting import Voting
from actors.links.connection import ControlProtocol
from actors.links.secret import Marks, Secrets
from actors.links.versions import at_level
from actors.runtime.environment import REAL, Chance, Environment
from actors.settings import BrokerConfig
from placement.metadata import ClusterSettings, ControllerInfo

log = logging.getLogger(__name__)


_PARTING_SECONDS: Final = 1.0
FindSecrets: TypeAlias = Callable[[Marks], Awaitable[Secrets]]


async def finds_nothing(marks: Marks) -> Secrets:
    """For a controller whose secrets cannot be changed while it runs."""
    raise ConnectionError("it takes over no secrets while it runs: start it again")


def logged(error: Exception) -> None:
    """Say that this node is of no use any more."""
    log.error("this node has ended as a controller: %s", error)


class ControllerNode:
    """Everything runs on one loop. `serve` makes the controller that this node is from now on, in a new epoch.

    `voting` speaks with the other voters; None if there are none. `failed` is told when the log has ended, as when its
    disk has refused a write, and when this node leads and cannot begin as the controller. It is of no use then: another
    one has to be made of what is on the disk. `find` gives the secrets with some marks, or raises OSError.

    One of several goes by the settings that have committed, or else by those that it was started with.
    """

    def __init__(
        self,
        metadata_log: Log,
        in_force: InForce,
        loop: asyncio.AbstractEventLoop,
        serve: Callable[[], ActiveController],
        voting: Voting | None = None,
        chance: Chance = REAL.chance,
        failed: Callable[[Exception], None] = logged,
        find: FindSecrets = finds_nothing,
    ) -> None:
        self.log = metadata_log
        self.in_force = in_force
        self.address: tuple[str, int] = ("", 0)
        self.server: ActiveController | None = None
        """The controller, while it is this node."""
        self._serve = serve
        self._voting = voting
        self._failed = failed
        self._find = find
        self._loop = loop
        self._first = in_force.config
        self._settings: ClusterSettings | None = None
        self._closed = False
        self.acceptor = Acceptor(
            in_force, loop, chance, lambda: at_level(metadata_log.committed.level), self._speaker_with
        )

    async def listen(self, host: str) -> int:
        """Accept connections at any free port of `host`, and begin; returns the port. Raises OSError, TlsError.

        One that is alone is the controller then, or raises why it cannot be.
        """
        self.address = (host, await self.acceptor.listen(host))
        if self._voting is None:
            self._begin()
        else:
            self._voting.begin(self.address)
            self.look()
        return self.address[1]

    @property
    def leader_address(self) -> tuple[str, int]:
        """The address of the controller, as far as this node knows. Raises NotControllerError if it knows of none."""
        if self._voting is None or self.server is not None:
            return self.address
        return self._voting.leader_address

    def look(self) -> None:
        """Do what the log says now: go by other settings, begin or cease to be the controller.

        To be called when that may have changed.
        """
        if self._closed:
            return
        self._go_by_settings()
        if self.server is not None and not self.log.leads_in(self.server.epoch):
            self.server.close()
            self.server = None
        if self.server is None and self.log.leads:
            try:
                self._begin()
            except NotControllerError:
                pass  # it has ceased to lead meanwhile
            except Exception as error:  # whatever it is: one that leads and serves nobody keeps others from leading
                self._end(self.log.failure or error)
                return
        if self.log.failure is not None:
            self._end(self.log.failure)

    def _go_by_settings(self) -> None:
        settings = self.log.committed.settings
        if settings != self._settings:
            self._settings = settings
            changed = self._first if settings is None else BrokerConfig.from_mapping(settings.of_controller)
            self.in_force.config = changed

    def _end(self, error: Exception) -> None:
        self.close()
        self._failed(error)

    def _begin(self) -> None:
        self.server = server = self._serve()
        server.begin(self.address)
        if self._voting is not None:
            server.register_controller(self._voting.me)

    def registered(self, controller: ControllerInfo) -> None:
        """Another controller says where it is."""
        if self.server is not None:
            self.server.register_controller(controller)

    def gone(self, controller: ControllerInfo) -> None:
        """Another controller neither votes nor follows any more."""
        if self.server is not None:
            self.server.unregister_controller(controller)

    async def learn(self, marks: Marks) -> None:
        """Take over the secrets with these marks. Raises OSError.

        Connections by another one are closed a little later, because the answer to this may go over one of them.
        """
        self.in_force.secrets = await self._find(marks)
        self._loop.call_later(_PARTING_SECONDS, self.close_unauthenticated)

    def close_unauthenticated(self) -> None:
        """Close all connections by a secret that is valid no longer."""
        self.acceptor.close_unauthenticated()
        if self._voting is not None:
            self._voting.close_unauthenticated()

    def close(self) -> None:
        """Stop listening, close all connections, and give up the log."""
        self._closed = True
        if self.server is not None:
            self.server.close()
        if self._voting is not None:
            self._voting.close()
        self.acceptor.close()
        self.log.close()

    def _speaker_with(self, protocol: ControlProtocol) -> Speaker | None:
        if self._closed:
            return None
        return self._voting if protocol.peer == "voter" else self.server


def alone(
    metadata_log: Log,
    in_force: InForce,
    launcher: Launcher,
    loop: asyncio.AbstractEventLoop,
    environment: Environment = REAL,
    **options: Any,
) -> ControllerNode:
    """The only controller of a cluster. `options` are those of a ActiveController."""

    def serve() -> ActiveController:
        return ActiveController(metadata_log, in_force, launcher, loop, environment, **options)

    return ControllerNode(metadata_log, in_force, loop, serve, chance=environment.chance)
