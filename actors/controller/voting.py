"""A voter's link to the others: it carries their messages, and keeps the time for the log (`actors.quorum`).

A node dials another when it has something to say to it, and answers on the connection that it was last heard on: the
other one may be at an address that nobody knows yet. A message that cannot be sent is lost; voters make up for that.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from actors.controller.acceptor import InForce
from actors.controller.others import NodeState
from actors.links.calls import Calls
from actors.links.codec import NotSpokenError
from actors.links.connection import ControlProtocol, Message, close_unauthenticated, reach_controller
from actors.links.control import Answer, Call, Failed
from actors.links.not_controller import NotControllerError
from actors.links.operations import Done, LearnSecrets
from actors.links.secret import Marks
from actors.links.voters import BetweenVoters, ControllerAt
from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import VoterId, Voters
from actors.quorum.messages import Message as VotersMessage
from actors.runtime.environment import Chance
from actors.security.tls import TlsError
from placement.metadata import ClusterMetadata, ControllerInfo
from placement.records import METADATA_LEVELS

log = logging.getLogger(__name__)

_REDIAL_SECONDS: Final = 0.25
_TELL_SECONDS: Final = 1.0
_TICK_SECONDS: Final = 0.001
"""A timer may fire a little before its time: without this it would be set again and again until that has come."""
_WAITING_MAX: Final = 32
"""So many messages wait for a connection; older ones are dropped."""
_SILENT_SECONDS: Final = 3.0
"""A node that has said nothing for so long, though it was spoken to, is dialled anew: a connection may be dead and not
know it for minutes."""
_GONE_SECONDS: Final = 10.0
"""One who has led for so long has heard of all nodes that follow: others are gone, and are unlisted."""
Said: TypeAlias = BetweenVoters | ControllerAt | Call | Answer | Failed
Came: TypeAlias = Callable[[ControlProtocol], None]


class VotersLog(Protocol):
    """The log, as far as its voter's messages and its time are concerned (`metadata.quorum_log.QuorumLog`)."""

    @property
    def me(self) -> VoterId: ...

    @property
    def leader(self) -> VoterId | None: ...

    @property
    def voters(self) -> Voters: ...

    @property
    def observers(self) -> list[VoterId]: ...

    @property
    def has_settled_voters(self) -> bool: ...

    @property
    def decided(self) -> ClusterMetadata: ...

    @property
    def seen(self) -> Mapping[int, ControllerInfo]: ...

    def on_message(self, sender: VoterId, to: VoterId, message: VotersMessage) -> None: ...

    def on_time(self) -> None: ...

    def deadline(self) -> float: ...

    def change(self, after: Voters) -> None: ...

    def nodes(self) -> list[NodeState]: ...


class Voting:
    """`log` gives the log, once it is made: it needs `send` before.

    The metadata says where the other controllers are. For those that it does not know, `seed` gives the address of a
    node by its id, or None. `wanted` are the ids of the nodes that are to be voters: the leader gives each a vote as
    soon as it has the log. As the leader, `registered` is told where another one is, and `gone` of one that neither
    votes nor follows any more. `learn` takes over the secrets with these marks, or raises OSError.
    """

    def __init__(
        self,
        in_force: InForce,
        loop: asyncio.AbstractEventLoop,
        chance: Chance,
        log: Callable[[], VotersLog],
        seed: Callable[[int], tuple[str, int] | None],
        wanted: Collection[int] = (),
        registered: Callable[[ControllerInfo], None] = lambda controller: None,
        gone: Callable[[ControllerInfo], None] = lambda controller: None,
        *,
        learn: Callable[[Marks], Awaitable[None]],
    ) -> None:
        self._in_force = in_force
        self._loop = loop
        self._chance = chance
        self._log = log
        self._seed = seed
        self._wanted = wanted
        self._registered = registered
        self._gone = gone
        self._learn = learn
        self._learning: set[asyncio.Task[None]] = set()
        self._led_since = math.inf
        self._address: tuple[str, int] = ("", 0)
        self._links: dict[int, _Link] = {}
        self._dialled: set[ControlProtocol] = set()
        self._timer: asyncio.Handle | None = None
        self._due = math.inf  # the time of the timer: one whose time has come already need not know it
        self._told_at = -math.inf
        self._closed = False

    @property
    def me(self) -> ControllerInfo:
        """This controller, as others are told of it."""
        me = self._log().me
        return ControllerInfo(me.id, me.directory, *self._address, METADATA_LEVELS[-1])

    @property
    def leader_address(self) -> tuple[str, int]:
        """The address of the one that leads. Raises NotControllerError if this node does not know it.

        A leader that has hung up leads no more, most likely: until another one does, nobody is sent to either.
        """
        log = self._log()
        leader = log.leader
        known = None if leader is None else log.decided.controllers.get(leader.id)
        if leader is None or leader == log.me or known is None or known.directory != leader.directory:
            raise NotControllerError("this controller does not know which one leads")
        if leader.id not in self._links or not self._links[leader.id].connected:
            raise NotControllerError("the controller that has led has hung up on this one")
        return known.host, known.port

    def begin(self, address: tuple[str, int]) -> None:
        """Keep the time from now on. Others find this node at `address`."""
        self._address = address
        self._wait()

    def close(self) -> None:
        """Send nothing more, and hear nothing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links.values():
            link.close()
        for protocol in list(self._dialled):
            protocol.close()

    def close_unauthenticated(self) -> None:
        """Close connections that were made by a secret which is valid no longer."""
        close_unauthenticated(self._dialled, self._in_force.secrets)

    def send(self, to: VoterId, message: VotersMessage) -> None:
        """Have this sent to another voter. It may get lost."""
        if not self._closed:
            self._link(to.id).send(BetweenVoters(self._log().me, to, message))

    def _link(self, node: int) -> _Link:
        link = self._links.get(node)
        if link is None:
            link = self._links[node] = _Link(self, node)
        return link

    # --- what is heard

    def came(self, protocol: ControlProtocol) -> None:
        """Another voter has connected. Each of its messages says who it is."""

    def heard(self, protocol: ControlProtocol, message: Message) -> None:
        """Another voter says something, on whichever connection."""
        if self._closed:
            return
        match message:
            case BetweenVoters(_, to) if to.id != self._log().me.id:
                protocol.close()  # it takes this node for another one, which was here before
            case BetweenVoters(sender, to, said):
                self._link(sender.id).use(protocol)
                try:
                    self._log().on_message(sender, to, said)
                    self._tell()
                finally:  # whoever is told of a change may raise
                    self._wait()
            case ControllerAt(controller):
                self._registered(controller)
            case Call(number, LearnSecrets(marks)):
                task = self._loop.create_task(self._answer(protocol, number, marks))
                self._learning.add(task)
                task.add_done_callback(self._learning.discard)
            case Call(number, operation):
                protocol.send(Failed(number, f"{type(operation).__name__} is nothing that a voter does"))
            case Answer() | Failed():
                for link in self._links.values():
                    link.answered(protocol, message)

    async def _answer(self, protocol: ControlProtocol, number: int, marks: Marks) -> None:
        try:
            await self._learn(marks)
            protocol.send(Answer(number, Done()))
        except (OSError, ValueError) as error:
            protocol.send(Failed(number, str(error)))

    def nodes(self) -> list[NodeState]:
        """As the leader: all controllers, the voters first."""
        return self._log().nodes()

    async def learn(self, marks: Marks, timeout_s: float) -> None:
        """Have the other voters, and those that follow, take over the secrets with these marks.

        Raises ConnectionError with the first one that has not.
        """
        log = self._log()
        for each in [*log.voters, *log.observers]:
            if each.id != log.me.id:
                try:
                    await self._link(each.id).calls.ask(LearnSecrets(marks), timeout_s)
                except (OSError, TimeoutError) as error:
                    why = str(error) or f"no answer within {timeout_s:.0f} s"
                    raise ConnectionError(f"controller {each.id} has not got the cluster's secrets: {why}") from error

    def lost(self, protocol: ControlProtocol) -> None:
        """A connection has ended. It is dialled again when there is something to say."""
        self._dialled.discard(protocol)
        for link in self._links.values():
            link.lost(protocol)

    # --- time

    def _wait(self) -> None:
        """Have the log called when its time comes. A call that comes too early does no harm."""
        due = self._log().deadline() + _TICK_SECONDS
        if self._timer is not None and self._due <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if math.isinf(due) else self._loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._closed:
            return
        try:
            self._log().on_time()
            self._tell()
            self._grow()
            self._unlist()
        finally:
            self._wait()

    def _tell(self) -> None:
        """Tell the leader where this node is, until the metadata says so."""
        log = self._log()
        leader, now = log.leader, self._loop.time()
        if leader is None or leader == log.me or now < self._told_at + _TELL_SECONDS:
            return
        if log.decided.controllers.get(log.me.id) != self.me:
            self._told_at = now
            self._link(leader.id).send(ControllerAt(self.me))

    def _grow(self) -> None:
        """Have one more voter, if there is one to be had. The leader's rounds come often enough for that.

        It has said where it is, and so what levels of the metadata it knows: none is raised that a voter does not know.
        """
        log = self._log()
        for each in log.observers:
            said = log.decided.controllers.get(each.id)
            known = said is not None and said.directory == each.directory
            if each.id in self._wanted and known and each.directory not in log.decided.barred:
                former = [voter for voter in log.voters if voter.id == each.id]  # with a directory that is gone
                after = [voter for voter in log.voters if voter not in former] if former else [*log.voters, each]
                with suppress(ChangeRefusedError):  # not now: it is tried again in the next round
                    log.change(tuple(after))
                    return

    def _unlist(self) -> None:
        """As the leader, forget where a controller was that is none any more. If it lives, it says so again."""
        log, now = self._log(), self._loop.time()
        if log.leader != log.me:
            self._led_since = math.inf
            return
        self._led_since = min(self._led_since, now)
        if now < self._led_since + _GONE_SECONDS:
            return
        present = {*log.voters, *log.observers}
        for each in list(log.decided.controllers.values()):
            if VoterId(each.id, each.directory) not in present:
                self._gone(each)

    # --- dialling

    async def dial(self, node: int, avoid: tuple[str, int] | None, came: Came) -> tuple[str, int]:
        """Connect to a node, wherever it may be, last of all at `avoid`; the address. `came` gets the connection.

        Raises OSError, TlsError, TimeoutError.
        """
        config, secrets = self._in_force.config, self._in_force.secrets
        tls = config.link_stores if config.link_security.encrypts else None
        failure: OSError | TlsError | TimeoutError = ConnectionError("nobody knows where it is")

        def ready(protocol: ControlProtocol) -> None:
            self._dialled.add(protocol)
            came(protocol)

        for at in sorted(self._addresses(node), key=lambda at: at == avoid):
            try:
                await reach_controller("voter", at, secrets, self._chance, ready, self.heard, self.lost, tls=tls)
            except (OSError, TlsError, TimeoutError) as error:
                failure = error
            else:
                return at
        raise failure

    def _addresses(self, node: int) -> list[tuple[str, int]]:
        """The addresses where a node may be: as decided, as the log had it at the start, and as known from outside."""
        told = (known.get(node) for known in (self._log().decided.controllers, self._log().seen))
        found = [(each.host, each.port) for each in told if each is not None]
        seed = self._seed(node)
        return list(dict.fromkeys([*found, *([seed] if seed is not None else [])]))

    def start(self, link: _Link) -> asyncio.Task[None]:
        """Have a link dial."""
        return self._loop.create_task(link.dial())

    def now(self) -> float:
        return self._loop.time()


def _say(protocol: ControlProtocol, message: Said) -> None:
    try:
        protocol.send(message)
    except NotSpokenError as error:  # a controller of an earlier build, which is none of a quorum's
        log.error("%s", error)


class _Link:
    """The connection to one node: the one that it was last heard on, or else one that is made to it."""

    def __init__(self, voting: Voting, node: int) -> None:
        self._voting = voting
        self._node = node
        self._protocol: ControlProtocol | None = None
        self._waiting: deque[Said] = deque(maxlen=_WAITING_MAX)
        self._dialling: asyncio.Task[None] | None = None
        self._unanswered_since: float | None = None
        self._at: tuple[str, int] | None = None  # the address that was dialled, until the node is heard from there
        self._avoid: tuple[str, int] | None = None
        self._closed = False
        self.calls = Calls(self.send)

    @property
    def connected(self) -> bool:
        """True if there is a connection to the node."""
        return self._protocol is not None

    def send(self, message: Said) -> None:
        """Say this. It is dropped if the node does not keep up with what it is sent: it asks again."""
        now = self._voting.now()
        if self._protocol is not None and self._is_silent(now):
            self._protocol.close()
            self._gone()
        if self._unanswered_since is None:
            self._unanswered_since = now
        if self._protocol is None:
            self._waiting.append(message)
            if self._dialling is None and not self._closed:
                self._dialling = self._voting.start(self)
        elif self._protocol.writable:
            _say(self._protocol, message)

    def _is_silent(self, now: float) -> bool:
        return self._unanswered_since is not None and now > self._unanswered_since + _SILENT_SECONDS

    async def dial(self) -> None:
        """Connect. If that fails, what waits is dropped, and what is said meanwhile is tried a while later."""
        try:
            while self._waiting and self._protocol is None:
                try:
                    at = await self._voting.dial(self._node, self._avoid, self.came)
                    self._at = at if self._unanswered_since is not None else None
                except (OSError, TlsError, TimeoutError) as error:
                    log.debug("controller %d cannot be reached: %s", self._node, error)
                    self._waiting.clear()
                    await asyncio.sleep(_REDIAL_SECONDS)
        finally:
            self._dialling = None

    def came(self, protocol: ControlProtocol) -> None:
        """It was reached, or somebody else who is at its address now."""
        if self._closed:
            protocol.close()
        elif self._protocol is None:
            self._unanswered_since = self._voting.now()
            self._speak(protocol)

    def answered(self, protocol: ControlProtocol, message: Answer | Failed) -> None:
        """An answer has come, perhaps to a call of this end's."""
        if protocol is self._protocol:
            self.calls.answered(message)

    def use(self, protocol: ControlProtocol) -> None:
        """The node is heard on this connection."""
        self._unanswered_since = self._at = self._avoid = None
        self._speak(protocol)

    def _speak(self, protocol: ControlProtocol) -> None:
        self._protocol = protocol
        while self._waiting:
            _say(protocol, self._waiting.popleft())

    def lost(self, protocol: ControlProtocol) -> None:
        """A connection has ended, perhaps this one."""
        if protocol is self._protocol:
            self._gone()

    def _gone(self) -> None:
        """There is no connection any more. An address from which the node was not heard is not the first to try."""
        self._protocol = self._unanswered_since = None
        self.calls.lose("the connection has ended")
        self._avoid, self._at = self._at or self._avoid, None

    def close(self) -> None:
        self._closed = True
        if self._dialling is not None:
            self._dialling.cancel()
        if self._protocol is not None:
            self._protocol.close()
