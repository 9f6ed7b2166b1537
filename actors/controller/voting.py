"""A voter's link to the others: it carries their messages, and keeps the time for the log (`actors.quorum`).

Each node dials those that it has something to say to, so an answer comes on another connection than its question. A
message that cannot be sent is lost: a voter makes up for that by itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

from actors.controller.acceptor import InForce
from actors.links.codec import NotSpokenError
from actors.links.connection import ControlProtocol, Message, reach_controller
from actors.links.voters import BetweenVoters
from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import VoterId, Voters
from actors.quorum.messages import Message as VotersMessage
from actors.runtime.environment import Chance
from actors.security.tls import TlsError

log = logging.getLogger(__name__)

_REDIAL_SECONDS: Final = 0.25
_WAITING_MAX: Final = 32
"""So many messages wait for a connection; older ones are dropped."""


class VotersLog(Protocol):
    """The log, as far as its voter's messages and its time are concerned (`metadata.quorum_log.QuorumLog`)."""

    @property
    def me(self) -> VoterId: ...

    def on_message(self, sender: VoterId, to: VoterId, message: VotersMessage) -> None: ...

    def on_time(self) -> None: ...

    def deadline(self) -> float: ...

    @property
    def voters(self) -> Voters: ...

    @property
    def observers(self) -> list[VoterId]: ...

    def change(self, after: Voters) -> None: ...


class Voting:
    """`address_of` gives the address of a controller's node by its id; None if it is not known.

    `log` gives the log, once it is made: it needs `send` before. `wanted` are the ids of the nodes that are to be
    voters: the leader gives each a vote as soon as it has the log.
    """

    def __init__(
        self,
        in_force: InForce,
        loop: asyncio.AbstractEventLoop,
        chance: Chance,
        address_of: Callable[[int], tuple[str, int] | None],
        log: Callable[[], VotersLog],
        wanted: Collection[int] = (),
    ) -> None:
        self._in_force = in_force
        self._loop = loop
        self._chance = chance
        self._address_of = address_of
        self._log = log
        self._wanted = wanted
        self._links: dict[int, _Link] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def begin(self) -> None:
        """Keep the time from now on."""
        self._wait()

    def close(self) -> None:
        """Send nothing more, and hear nothing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links.values():
            link.close()

    def send(self, to: VoterId, message: VotersMessage) -> None:
        """Have this sent to another voter. It may get lost."""
        if self._closed:
            return
        link = self._links.get(to.id)
        if link is None:
            link = self._links[to.id] = _Link(self, to.id)
        link.send(BetweenVoters(self._log().me, to, message))

    # --- those who have connected

    def came(self, protocol: ControlProtocol) -> None:
        """Another voter has connected. Each of its messages says who it is."""

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """It says something."""
        if isinstance(message, BetweenVoters) and not self._closed:
            self._log().on_message(message.sender, message.to, message.message)
            self._wait()

    def lost(self, protocol: ControlProtocol) -> None:
        """It has hung up: it dials again when there is something to say."""

    # --- time

    def _wait(self) -> None:
        """Have the log called when its time comes. A call that comes too early does no harm."""
        due = self._log().deadline()
        if self._timer is not None and not self._timer.cancelled() and self._timer.when() <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if math.isinf(due) else self._loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if not self._closed:
            self._log().on_time()
            self._grow()
            self._wait()

    def _grow(self) -> None:
        """Have one more voter, if there is one to be had. The leader's rounds come often enough for that."""
        log = self._log()
        for each in log.observers:
            if each.id in self._wanted:
                former = [voter for voter in log.voters if voter.id == each.id]  # with a directory that is gone
                after = [voter for voter in log.voters if voter not in former] if former else [*log.voters, each]
                with suppress(ChangeRefusedError):  # not now: it is tried again in the next round
                    log.change(tuple(after))
                    return

    # --- dialling

    async def dial(self, node: int, link: _Link) -> None:
        """Connect to a node, once. Raises OSError, TlsError, TimeoutError."""
        at = self._address_of(node)
        if at is None:
            raise ConnectionError("its address is not known")
        config = self._in_force.config
        tls = config.link_stores if config.link_security.encrypts else None
        secrets = self._in_force.secrets
        await reach_controller("voter", at, secrets, self._chance, link.came, _ignored, link.lost, tls=tls)

    def start(self, link: _Link) -> asyncio.Task[None]:
        """Have a link dial."""
        return self._loop.create_task(link.dial())


def _ignored(protocol: ControlProtocol, message: Message) -> None:
    """Nothing is said on a connection by the one who was dialled."""


def _say(protocol: ControlProtocol, message: BetweenVoters) -> None:
    try:
        protocol.send(message)
    except NotSpokenError as error:  # a controller of an earlier build, which is none of a quorum's
        log.error("%s", error)


class _Link:
    """The connection to one node, made when there is something to say to it."""

    def __init__(self, voting: Voting, node: int) -> None:
        self._voting = voting
        self._node = node
        self._protocol: ControlProtocol | None = None
        self._waiting: deque[BetweenVoters] = deque(maxlen=_WAITING_MAX)
        self._dialling: asyncio.Task[None] | None = None
        self._closed = False

    def send(self, message: BetweenVoters) -> None:
        if self._protocol is not None:
            _say(self._protocol, message)
            return
        self._waiting.append(message)
        if self._dialling is None:
            self._dialling = self._voting.start(self)

    async def dial(self) -> None:
        """Connect; if that fails, what waits is dropped, and the next message dials, a while later."""
        try:
            await self._voting.dial(self._node, self)
        except (OSError, TlsError, TimeoutError) as error:
            log.debug("controller %d cannot be reached: %s", self._node, error)
            self._waiting.clear()
            await asyncio.sleep(_REDIAL_SECONDS)
        finally:
            self._dialling = None

    def came(self, protocol: ControlProtocol) -> None:
        if self._closed:
            protocol.close()
            return
        self._protocol = protocol
        while self._waiting:
            _say(protocol, self._waiting.popleft())

    def lost(self, protocol: ControlProtocol) -> None:
        if protocol is self._protocol:
            self._protocol = None

    def close(self) -> None:
        self._closed = True
        if self._dialling is not None:
            self._dialling.cancel()
        if self._protocol is not None:
            self._protocol.close()
