"""Connections between brokers: a leader's broker connects to each follower's, and both prove the cluster's secret.

Here is who is connected, how many bytes are on their way, and who gave a sign of life when. The contents are decided in
pushes.py and lease.py.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from actors.links.acceptance import listen_for_links
from actors.links.codec import NotSpokenError
from actors.links.connection import ControlProtocol, Message, close_unauthenticated, dial
from actors.links.replication import (
    Acks,
    FollowerHello,
    FoundBatches,
    LeaderHello,
    PartitionAck,
    PartitionPush,
    Ping,
    Pong,
    Pushes,
    WantBatches,
)
from actors.links.secret import Secrets
from actors.links.unproved import Unproved
from actors.runtime.environment import Chance
from actors.runtime.logs import about
from actors.security.tls import TlsError
from actors.settings import LinkSecurity, LinkStores

log = logging.getLogger(__name__)

_WINDOW_BYTES = 8 << 20  # sent to one follower and not yet acknowledged
_RETRY_SECONDS = (0.02, 0.05, 0.1, 0.2, 0.5)
_CONNECT_SECONDS = 3.0
_OTHER_BUILD_SECONDS = 5.0  # nobody changes a build within a moment
_ROW_BYTES = 64  # about what a push takes beside its records
_OWN = LinkStores()  # certificates that processes make themselves
_NOBODY = (-1, -1)  # an end that has proved itself, and not said which broker it is


class Batches(Protocol):
    """It gives brokers the batches that they want, and takes those that it wants from them."""

    def wanted(self, want: WantBatches) -> FoundBatches: ...

    def found(self, broker: int, found: FoundBatches) -> None: ...


class Links(Protocol):
    """The owner of a link, as the link calls it."""

    def connected(self, link: FollowerLink) -> None: ...

    def disconnected(self, link: FollowerLink) -> None: ...

    def acknowledged(self, link: FollowerLink, acks: Sequence[PartitionAck]) -> None: ...

    def ponged(self, link: FollowerLink, pong: Pong) -> None: ...

    def has_room(self, link: FollowerLink) -> None: ...

    @property
    def batches(self) -> Batches: ...


class FollowerLink:
    """The connection to a broker that follows partitions led here. It connects again and again until it is closed."""

    def __init__(
        self,
        broker_id: int,
        address: tuple[str, int],
        secrets: Callable[[], Secrets],
        chance: Chance,
        me: int,
        owner: Links,
        *,
        tls: LinkStores | None = None,
    ) -> None:
        self.broker_id = broker_id
        self._tls = tls
        self.address = address
        self.broker_epoch = -1
        self.ready = False
        self.heard_at = 0.0
        """The time at which the last answered ping was sent (loop's clock, seconds)."""
        self.confirmed_at = -1e9
        """The same for answers that confirm this broker as leader while no controller does."""
        self.lost_at: float | None = None
        """The time at which the connection has ended (loop's clock, seconds); None while there is one, or if none was
        made yet."""
        self._secrets = secrets
        self._chance = chance
        self._me = me
        self._owner = owner
        self.protocol: ControlProtocol | None = None
        """The connection; None while there is none."""
        self._sizes: deque[int] = deque()
        self._in_flight = 0
        self._refused = ""  # the reason why the last connection ended, if the two have no version in common
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._keep_connected())

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            lost = self._loop.create_future()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._connect(lost)
            except (OSError, TimeoutError) as error:
                log.debug(
                    "broker %d at %s:%d cannot be reached: %s",
                    self.broker_id,
                    *self.address,
                    error,
                    extra=about(peer=f"broker {self.broker_id}"),
                )
            except TlsError as error:  # of a secret that is new; the files may be right at the next try
                log.warning(
                    "broker %d cannot be reached: %s",
                    self.broker_id,
                    error,
                    extra=about(peer=f"broker {self.broker_id}"),
                )
            else:
                if await lost:
                    failures = 0
            pause = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
            await asyncio.sleep(_OTHER_BUILD_SECONDS if self._refused else pause)
            failures += 1

    async def _connect(self, lost: asyncio.Future[bool]) -> None:
        """Connect. `lost` is set when the connection has ended: to whether the other end was a broker of ours."""

        def on_lost(protocol: ControlProtocol) -> None:
            was_ready = self._lost()
            self._refused = protocol.refused
            if not lost.done():
                lost.set_result(was_ready)

        secrets = self._secrets()

        def made() -> ControlProtocol:
            return ControlProtocol("leader", secrets, self._chance, self.on_ready, self.on_message, on_lost)

        transport = await dial(made, *self.address, secrets, tls=self._tls)
        set_options(transport)

    def on_ready(self, protocol: ControlProtocol) -> None:
        """Both ends have proved that they know the secret."""
        self.protocol = protocol
        protocol.on_writable = lambda: self._owner.has_room(self)
        protocol.send(LeaderHello(self._me))

    def on_message(self, protocol: ControlProtocol, message: Message) -> None:
        """The follower has sent a message."""
        if isinstance(message, Acks):
            for _ in message.acks:
                self._in_flight -= self._sizes.popleft()
            self._owner.acknowledged(self, message.acks)
        elif isinstance(message, Pong):
            self.heard_at = message.sent
            self._owner.ponged(self, message)
        elif isinstance(message, WantBatches):
            protocol.send(self._owner.batches.wanted(message))
        elif isinstance(message, FoundBatches):
            self._owner.batches.found(self.broker_id, message)
        elif isinstance(message, FollowerHello):
            if message.broker_id != self.broker_id:
                log.error(
                    "%s:%d is broker %s, not %d",
                    *self.address,
                    message.broker_id,
                    self.broker_id,
                    extra=about(peer=f"broker {message.broker_id}"),
                )
                protocol.close()
                return
            self.broker_epoch, self.ready = message.epoch, True
            self.heard_at, self.lost_at = self._loop.time(), None
            log.info(
                "connected to broker %d (epoch %d) for replication",
                self.broker_id,
                self.broker_epoch,
                extra=about(peer=f"broker {self.broker_id}"),
            )
            self._owner.connected(self)

    def _lost(self) -> bool:
        self.protocol = None
        self._sizes.clear()
        self._in_flight = 0
        was_ready, self.ready = self.ready, False
        if was_ready:
            self.lost_at = self._loop.time()
            self._owner.disconnected(self)
        return was_ready

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        protocol = self.protocol
        if protocol is None or not self.ready or not protocol.writable:
            return 0
        return max(_WINDOW_BYTES - self._in_flight, 0)

    def push(self, pushes: Sequence[PartitionPush]) -> None:
        """Send pushes, in one write."""
        if self.protocol is not None:
            for _, _, push in pushes:
                size = _ROW_BYTES + len(push.records)
                self._sizes.append(size)
                self._in_flight += size
            self.protocol.send(Pushes(tuple(pushes)))

    def want(self, want: WantBatches) -> bool:
        """Ask for batches. Returns True if that was possible."""
        return self.ready and _ask(self.protocol, want)

    def ping(self) -> None:
        """Ask for a sign of life."""
        if self.protocol is not None and self.ready:
            self.protocol.send(Ping(self._loop.time()))

    def close(self) -> None:
        """Close the connection, and do not connect again."""
        self._task.cancel()
        if self.protocol is not None:
            self.protocol.close()


class FollowerListener:
    """Listens for the leaders that push to this broker. `take` makes the answer to pushes, `pong` that to a ping.

    `take` is told which broker pushes: the one that the connection was introduced by.
    """

    def __init__(
        self,
        me: int,
        epoch: Callable[[], int],
        secrets: Callable[[], Secrets],
        chance: Chance,
        take: Callable[[int, Sequence[PartitionPush]], tuple[PartitionAck, ...]],
        pong: Callable[[float], Pong],
        batches: Batches,
        *,
        security: LinkSecurity = LinkSecurity.PROOF,
        stores: LinkStores = _OWN,
    ) -> None:
        self._security = security
        self._stores = stores
        self._me = me
        self._epoch = epoch
        self._secrets = secrets
        self._chance = chance
        self._take = take
        self._pong = pong
        self._batches = batches
        self.listening: asyncio.Server | None = None
        """The server of its port, once it listens."""
        self.unproved: Unproved | None = None
        """Connections that have not proved yet that they know the secret, once it listens."""
        self.paused = False
        self._closed = False
        self._protocols: dict[ControlProtocol, tuple[int, int]] = {}  # the leader there, and the epoch it was told

    async def listen(self, host: str) -> int:
        """Listen on a free port of `host`; the port. Raises OSError."""
        self.unproved = Unproved(asyncio.get_running_loop())
        self.listening = await listen_for_links(self._accept, host, self._secrets, lambda: self._security, self._stores)
        port: int = self.listening.sockets[0].getsockname()[1]
        return port

    def _accept(self) -> ControlProtocol:
        if self._closed:  # asyncio's server has accepted it before
            raise ConnectionAbortedError("this broker has ended")
        secrets = self._secrets()
        return ControlProtocol(
            "follower", secrets, self._chance, self.on_ready, self.on_message, self._on_lost, self.unproved
        )

    def on_ready(self, protocol: ControlProtocol) -> None:
        """A leader has connected, and both ends have proved that they know the secret."""
        self._protocols[protocol] = _NOBODY
        if protocol.transport is not None:
            set_options(protocol.transport)

    def on_message(self, protocol: ControlProtocol, message: Message) -> None:
        """A leader has sent a message."""
        leader, told = self._protocols.get(protocol, _NOBODY)
        if isinstance(message, LeaderHello) and leader in (-1, message.broker_id):
            self.introduce(protocol, message.broker_id)
        elif leader < 0:
            protocol.close()  # it has not said who it is
        elif isinstance(message, WantBatches):
            protocol.send(self._batches.wanted(message))
        elif isinstance(message, FoundBatches):
            self._batches.found(leader, message)
        elif isinstance(message, Pushes):
            protocol.send(Acks(self._take(leader, message.pushes)))
        elif isinstance(message, Ping) and told == self._epoch():
            protocol.send(self._pong(message.sent))
        else:  # our epoch has changed, and sets with the old one are refused; or it is nothing that a leader says
            protocol.close()

    def introduce(self, protocol: ControlProtocol, leader: int) -> None:
        """A leader has said which broker it is."""
        epoch = self._epoch()
        if epoch < 0 or self.paused:
            protocol.close()  # we are not registered yet, or are leaving: it will connect again
            return
        self._protocols[protocol] = (leader, epoch)
        protocol.send(FollowerHello(self._me, epoch))

    def _on_lost(self, protocol: ControlProtocol) -> None:
        self._protocols.pop(protocol, None)

    def want(self, leader: int, want: WantBatches) -> bool:
        """Ask a leader for batches. Returns True if that was possible."""
        asked = [protocol for protocol, (broker, _) in self._protocols.items() if broker == leader]
        return bool(asked) and _ask(asked[-1], want)

    def pause(self) -> None:
        """Close all connections, and new ones at once, until `paused` is False again. The port is kept."""
        self.paused = True
        for protocol in list(self._protocols):
            protocol.close()

    def close_unauthenticated(self) -> None:
        """Close connections by a secret that is valid no longer. A peer that knows the valid one connects again."""
        close_unauthenticated(self._protocols, self._secrets())

    def close(self) -> None:
        """Stop listening and close all connections, also those whose other end has not proved itself."""
        self._closed = True
        if self.listening is not None:
            self.listening.close()
        if self.unproved is not None:
            self.unproved.close()
        for protocol in list(self._protocols):
            protocol.close()


def _ask(protocol: ControlProtocol | None, want: WantBatches) -> bool:
    try:
        if protocol is None:
            return False
        protocol.send(want)
    except NotSpokenError:
        return False  # an older build, which has sound batches but does not give them
    return True


def set_options(transport: asyncio.BaseTransport) -> None:
    """Have small frames sent at once (TCP_NODELAY)."""
    found = transport.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
