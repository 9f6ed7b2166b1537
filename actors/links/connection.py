"""TCP connections between the controller and its brokers, between brokers, and between controllers that vote.

A message is its length (4 bytes, big-endian), then the bytes that the link's codec makes of it. Both ends prove that
they know the cluster's secret, and which versions they speak, before anything else is said (`proof`, `versions`). The
connections are in TLS where coterie.internal.security says so (`encryption`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from actors.links import control, proof, replication
from actors.links.codec import Codec, LinkError, NotSpokenError, UnknownKindError
from actors.links.proof import (
    CHALLENGE_BYTES,
    LIMIT_UNPROVED,
    PEERS,
    Challenge,
    Proof,
    Role,
    challenge_of,
    is_challenge,
    told_in,
)
from actors.links.secret import Secrets
from actors.links.tls_transport import TlsTransport
from actors.links.unproved import Unproved
from actors.links.versions import OWN, UNTOLD, Spoken, VersionError, common, none_in_common
from actors.runtime.environment import Chance
from actors.settings import LinkStores
from actors.wire.gathering import Gathering

log = logging.getLogger(__name__)

_CODECS: dict[Role, Codec[Message]] = {
    "controller": cast("Codec[Message]", control.CODEC),
    "broker": cast("Codec[Message]", control.CODEC),
    "monitor": cast("Codec[Message]", control.CODEC),
    "voter": cast("Codec[Message]", control.CODEC),
    "leader": cast("Codec[Message]", replication.CODEC),
    "follower": cast("Codec[Message]", replication.CODEC),
}
_CONNECT_SECONDS = 5.0
_FRAME_MAX = 128 << 20
_FRAME_WITH_A_BATCH_MAX = (1 << 31) + (16 << 20)  # a batch of any message.max.bytes, and the rest of its frame


Message: TypeAlias = control.ControlMessage | replication.ReplicationMessage


async def dial(
    made: Callable[[], ControlProtocol], host: str, port: int, secrets: Secrets, *, tls: LinkStores | None
) -> asyncio.Transport:
    """Connect to another process of the cluster; without `tls` in plain. Raises OSError, TlsError.

    An end that does not know the secret is an OSError, and so is one whose certificate is not what it should be.
    """
    options = _tls(secrets, tls) if tls is not None else {}
    transport, _ = await asyncio.get_running_loop().create_connection(made, host, port, **options)
    return transport


async def reach_controller(
    role: Role,
    at: tuple[str, int],
    secrets: Secrets,
    chance: Chance,
    on_ready: Callable[[ControlProtocol], None],
    on_message: Callable[[ControlProtocol, Message], None],
    on_lost: Callable[[ControlProtocol], None],
    *,
    tls: LinkStores | None,
) -> None:
    """Connect to the controller at a host and port, both ends proving that they know the secret.

    `on_ready` gets the connection before anything else is said on it. Raises OSError, TlsError, TimeoutError;
    VersionError, an OSError, if the two have no version in common.
    """
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def proved(protocol: ControlProtocol) -> None:
        on_ready(protocol)
        if not ready.done():
            ready.set_result(None)

    def lost(protocol: ControlProtocol) -> None:
        if not ready.done():
            refused = protocol.refused
            ready.set_exception(VersionError(refused) if refused else ConnectionError("the controller hung up"))
        on_lost(protocol)

    protocol = ControlProtocol(role, secrets, chance, proved, on_message, lost)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await dial(lambda: protocol, *at, secrets, tls=tls)
            await ready
    except BaseException:  # cancelled, too: the connection would stay open
        protocol.close()
        raise


def _tls(secrets: Secrets, stores: LinkStores) -> dict[str, Any]:
    from actors.links.encryption import HANDSHAKE_SECONDS, link_tls  # certificates are not needed without

    return {"ssl": link_tls(secrets, stores).client, "ssl_handshake_timeout": HANDSHAKE_SECONDS}


class ControlProtocol(asyncio.Protocol):
    """One end of a control connection. `on_ready` is called once the other end has proved itself.

    The challenge comes from `chance`, which nobody may be able to foretell. An end that accepts connections hands in
    `unproved`, those whose other ends have not proved themselves. `spoken` are the versions that this end speaks.
    """

    def __init__(
        self,
        role: Role,
        secrets: Secrets,
        chance: Chance,
        on_ready: Callable[[ControlProtocol], None],
        on_message: Callable[[ControlProtocol, Message], None],
        on_lost: Callable[[ControlProtocol], None],
        unproved: Unproved | None = None,
        *,
        spoken: Spoken = OWN,
    ) -> None:
        self._role: Role = role
        self._codec = _CODECS[role]
        self._frame_max = _FRAME_WITH_A_BATCH_MAX if role in ("leader", "follower") else _FRAME_MAX
        self._secrets = secrets
        self._on_ready = on_ready
        self._on_message = on_message
        self._on_lost = on_lost
        self._unproved = unproved
        self.peer: Role = PEERS[role][0]
        """The role that the other end has proved; before that, the most likely one."""
        self.spoken = UNTOLD
        """The versions that the other end speaks."""
        self.version = 0
        """The version that both ends use."""
        self.refused = ""
        """The reason why this end hangs up on one that has proved itself: no version in common. Else empty."""
        self.transport: asyncio.Transport | None = None
        self._own = spoken
        self._unknown: set[int] = set()  # kinds of messages that were refused, each said once
        self._challenge = challenge_of(chance.randbytes(CHALLENGE_BYTES), spoken)
        self._proved_by: bytes | None = None
        self._answered = False
        self._gathering = Gathering()
        self._closed = False
        self.writable = True
        """True while the other end keeps up with what is sent."""
        self.on_writable: Callable[[], None] = lambda: None

    @property
    def proved_by(self) -> bytes | None:
        """The secret that the other end has shown to know; None as long as it has shown none."""
        return self._proved_by

    @property
    def gathered_bytes(self) -> int:
        """The number of bytes that are kept of a frame that has not come whole."""
        return len(self._gathering)

    def arrived(self, transport: asyncio.BaseTransport) -> None:
        """The other end has connected to us. The connection counts from now on, whatever it turns out to be."""
        self.transport = cast(asyncio.Transport, transport)
        if self._unproved is not None:
            self._unproved.came(self, self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.arrived(transport)
        if not isinstance(transport, TlsTransport):  # its watch calls `challenge` after the handshake
            self.challenge()

    def challenge(self) -> None:
        """Ask the other end for its proof. It can hear us now."""
        self._write(proof.CODEC.encode(Challenge(self._challenge)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._unproved is not None:
            self._unproved.left(self)
        self._on_lost(self)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        data = self._gathering.whole(data)
        position, need = 0, 4
        while len(data) - position >= 4 and not self._closed:
            length = int.from_bytes(data[position : position + 4], "big")
            if length > (self._frame_max if self._proved_by else LIMIT_UNPROVED):
                self.close()
                return
            if len(data) - position - 4 < length:
                need = 4 + length
                break
            body = data[position + 4 : position + 4 + length]
            position += 4 + length
            if not self._receive(body):
                self.close()
                return
        if position < len(data):
            self._gathering.keep(data[position:], need)

    def _receive(self, body: bytes) -> bool:
        """Handle one message; False if it is malformed or not allowed now, and the connection has to end."""
        try:
            if self._met():
                self._on_message(self, self._codec.decode(body))
                return True
            return self._take_proof(proof.CODEC.decode(body))
        except UnknownKindError as error:
            return self._met() and self._refuse(error)
        except LinkError as error:
            if self._proved_by:
                log.error("hung up on a %s: %s", self.peer, error)
            return False

    def _refuse(self, error: UnknownKindError) -> bool:
        """Go on after a message of a kind that is not known here. A call is answered, and an answer has failed."""
        text = f"{error}: the {self.peer} {self.spoken}, this {self._role} {self._own}"
        if error.kind not in self._unknown:
            self._unknown.add(error.kind)
            log.error("refused a message: %s", text)
        failed = control.refusal(error, text)
        if failed is not None and error.outer is control.Call:
            self.send(failed)
        elif failed is not None:
            self._on_message(self, failed)
        return True

    def _take_proof(self, message: Challenge | Proof) -> bool:
        if isinstance(message, Challenge) and not self._answered and is_challenge(message.challenge):
            self.spoken = told_in(message.challenge)
            self._answered = True
            self._write(proof.CODEC.encode(Proof(proof.proof(self._secrets.current, self._role, message.challenge))))
        elif isinstance(message, Proof) and not self._proved_by:
            proved = proof.prover(message.proof, self._secrets.known, self._role, self._challenge)
            if proved is None:
                return False
            self._proved_by, self.peer = proved
        else:
            return False
        if self._met():
            self._agree()
        return True

    def _met(self) -> bool:
        return self._proved_by is not None and self._answered

    def _agree(self) -> None:
        """Use the highest version that both ends speak, now that both have proved themselves."""
        if self._unproved is not None:
            self._unproved.left(self)
        version = common(self._own, self.spoken)
        if version is None:
            self.refused = none_in_common(self._role, self._own, self.peer, self.spoken)
            log.error("hung up: %s", self.refused)
            self._part()
        else:
            self.version = version
            self._on_ready(self)

    def _part(self) -> None:
        """End the connection once all has been sent: the other end needs our proof to say why it ends."""
        self._closed = True
        if self.transport is not None:
            self.transport.close()

    def send(self, message: Message) -> None:
        """Send one message; nothing happens if the connection has gone.

        Raises NotSpokenError if the other end does not know its kind. An answer of such a kind is a failure instead.
        """
        if self.transport is None:
            return
        try:
            body = self._codec.encode(message, self.version)
        except NotSpokenError as error:
            if not isinstance(message, control.Answer):
                raise
            body = self._codec.encode(control.Failed(message.number, str(error)), self.version)
        self._write(body)

    def send_encoded(self, body: bytes) -> None:
        """Send a message that has been encoded already, once for many connections that use this `version`."""
        self._write(body)

    def _write(self, body: bytes) -> None:
        if self.transport is not None:
            self.transport.write(len(body).to_bytes(4, "big") + body)

    def close(self) -> None:
        """End the connection at once. Messages that were read and not yet handled are dropped."""
        self._closed = True
        if self.transport is not None:
            self.transport.abort()


def close_unauthenticated(connections: Iterable[ControlProtocol], secrets: Secrets) -> None:
    """Close those that were opened by a secret which is not valid any more. A peer with a valid one connects again."""
    for protocol in list(connections):
        if protocol.proved_by not in secrets.known:
            protocol.close()
