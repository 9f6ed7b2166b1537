"""A broker's way to the controller: it finds one, joins it, and finds another when that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from actors.broker.controller_link import ControllerLink
from actors.broker.spec import StartError
from actors.links.control import Joined
from actors.links.operations import Operation, Result
from actors.links.secret import Secrets
from actors.links.status import Load
from actors.links.versions import VersionError
from actors.runtime.environment import Chance
from actors.security.tls import TlsError
from actors.settings import LinkStores

R = TypeVar("R", bound=Result)
FindController: TypeAlias = Callable[[], tuple[str, int, Secrets]]
"""Finds (host, port, secrets) of the controller. It may block."""

RECONNECT_SECONDS = 0.1
_RECOVERING_SECONDS = 1.0  # between two signs of life
_JOIN_SECONDS = 20.0
_LOOK_AGAIN_SECONDS = 0.5  # while the connection that was asked for has not come


class Contact:
    """The connection to the controller, and how to get another one.

    `find_controller` runs in an executor.
    """

    def __init__(
        self,
        broker_id: int,
        find_controller: FindController,
        loop: asyncio.AbstractEventLoop,
        chance: Chance,
        *,
        tls: LinkStores | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._tls = tls
        self.find_controller = find_controller
        self._loop = loop
        self._chance = chance
        self.secrets = Secrets(b"")
        """Those that are valid now; none until a controller has been found."""
        self.link = ControllerLink(loop, self.secrets, chance)  # to nobody, until a controller has been found
        self._joined = self.link  # calls go by this one: it lags behind while another controller is being joined

    @property
    def connected(self) -> bool:
        """True if there is a connection to a controller that has been joined."""
        return self._joined.connected

    def call(self, operation: Operation[R], done: Callable[[R | None, str | None], None], by: str = "") -> None:
        """Ask the controller to do something. `done` gets (result, None) or (None, the error)."""
        self._joined.call(operation, done, by)

    async def join_first(self) -> Joined:
        """Join at a broker's start; waits for a controller that is still starting. Raises StartError."""
        deadline = self._loop.time() + _JOIN_SECONDS
        while True:
            try:
                return await self.join()
            except (TlsError, VersionError) as error:
                raise StartError(f"broker {self._broker_id}: {error}") from error
            except (TimeoutError, OSError) as error:
                if self._loop.time() > deadline:
                    raise StartError(f"broker {self._broker_id} cannot reach the controller: {error}") from error
                await asyncio.sleep(RECONNECT_SECONDS)

    async def join(self) -> Joined:
        """Find the controller and join it: the cluster's id and metadata. Raises OSError, TimeoutError."""
        at = await self.learn_secrets()
        older, link = self.link, ControllerLink(self._loop, self.secrets, self._chance, tls=self._tls)
        # The lease and the epoch are the broker's, not the connection's.
        link.last_confirmed, link.epoch = older.last_confirmed, older.epoch
        older.close()
        self.link = link
        await self._reach(link, at)
        joined = await link.join(self._broker_id)
        self._joined = link
        return joined

    async def _reach(self, link: ControllerLink, at: tuple[str, int]) -> None:
        """Connect to the controller, unless another one leads before that is done. Raises OSError, TimeoutError.

        A machine that is off refuses nothing, and a controller may name the one there until it knows better.
        """
        connecting = self._loop.create_task(link.connect(*at))
        another = self._loop.create_task(self._until_another_leads(at))
        try:
            await asyncio.wait({connecting, another}, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                another.result()
                raise ConnectionError("another controller leads by now")
            connecting.result()
        finally:
            connecting.cancel()
            another.cancel()

    async def _until_another_leads(self, at: tuple[str, int]) -> None:
        while True:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            with suppress(OSError):
                if await self.learn_secrets() != at:
                    return

    async def learn_secrets(self) -> tuple[str, int]:
        """Find out which secrets the controller has, and where it is: (host, port). Raises OSError."""
        host, port, self.secrets = await self._loop.run_in_executor(None, self.find_controller)
        return host, port

    async def show_recovery(self, every_s: float = _RECOVERING_SECONDS) -> None:
        """Tell the controller again and again that this broker lives, until cancelled. It has not registered yet."""
        while True:
            await asyncio.sleep(every_s)
            if self.link.connected:
                self.link.heartbeat(Load(), leaving=False)
            else:  # the next controller has to know, too
                with suppress(TimeoutError, OSError, TlsError):
                    await self.join()
