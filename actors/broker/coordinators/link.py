"""One shard process, as its broker knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from actors import CoterieError
from actors.broker.connections.connection import Connection
from actors.broker.connections.slots import Slot
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.rebalances import Rebalancing
from actors.links.relay import Figures, RelayProtocol
from actors.runtime.logs import Fields, about, at


class LinkState(Enum):
    """The states of a link to a shard's process. The values stand in `coterie status`.

    ==========  =====================================================  ==========================================
    state       what ends it                                           who moves the link
    ==========  =====================================================  ==========================================
    CONNECTED   its HELLO                                              the hub: SPARE
    SPARE       a partition wants a process                            the hub: LOADING
    LOADING     its ACTIVE                                             the hub: ACTIVE
    ACTIVE      nobody asks for a while: may it sleep?                 `Idling`: DROWSY
    DROWSY      its answer; or the topics change before that           `Idling`: ACTIVE
    (serves)
    LOADING,    the partition moves, has a new epoch, or has to be     the hub: RESIGNED
    ACTIVE,     loaded again; the log cannot be read; it may sleep,
    DROWSY      and has been sent nothing since it was asked
    RESIGNED    its HELLO: what it sent before was for the partition   the hub: SPARE
    any         the end of the connection                              the hub: GONE, for good
    ==========  =====================================================  ==========================================
    """

    CONNECTED = "Connected"
    SPARE = "Spare"
    LOADING = "Loading"
    ACTIVE = "Active"
    DROWSY = "Drowsy"
    RESIGNED = "Resigned"
    GONE = "Gone"


_FROM = {
    LinkState.SPARE: {LinkState.CONNECTED, LinkState.RESIGNED},
    LinkState.LOADING: {LinkState.SPARE},
    LinkState.ACTIVE: {LinkState.LOADING, LinkState.DROWSY},
    LinkState.DROWSY: {LinkState.ACTIVE},
    LinkState.RESIGNED: {LinkState.LOADING, LinkState.ACTIVE, LinkState.DROWSY},
    LinkState.GONE: set(LinkState) - {LinkState.GONE},
}
"""The states from which each may be reached."""


class LinkStateError(CoterieError):
    """A shard process cannot enter this state from its present one."""


class Question:
    """A request of the broker's own to a shard. It stands where a client's request has a slot."""

    __slots__ = ("done", "name", "rouses")

    def __init__(self, name: str, done: Callable[[bytes], None], *, rouses: bool = True) -> None:
        self.name = name
        """The name of the request, for people."""
        self.done = done
        """Takes the answer's frame."""
        self.rouses = rouses
        """True if it keeps the shard awake."""


@dataclass(slots=True)
class Idle:
    """The idleness of a shard that serves."""

    since: float = 0.0
    """The time at which it was last seen to have been sent a request (the loop's); 0 before it was first looked at."""
    ask_at: float = 0.0
    """The time at which it is asked whether it may sleep."""
    sent: int = -1
    """`ShardLink.sent` when it was last looked at, or asked."""
    question: int = 0
    """The number of the last question."""
    busy: str = ""
    """The reason why it could not sleep when it was last asked."""


Handle = Callable[["ShardLink", int, int, bytes], None]
"""Handles messages of one kind; called with the sender, a, b and the payload."""


class ShardLink:
    """One shard process. `partition` is the one it hosts while it loads or is active, else -1.

    `kind` and `handlers` are those of the partition that it hosts, or has hosted last: it may still speak of that one.
    """

    __slots__ = (
        "epoch",
        "figures",
        "handlers",
        "idle",
        "kind",
        "name",
        "opened",
        "partition",
        "pending",
        "pid",
        "protocol",
        "rebalancing",
        "sent",
        "state",
    )

    def __init__(self, protocol: RelayProtocol, handlers: Mapping[int, Handle]) -> None:
        self.protocol = protocol
        self.handlers = handlers
        self.kind: CoordinatorKind | None = None
        self.state = LinkState.CONNECTED
        self.partition = -1
        self.epoch = -1
        self.pid = 0
        self.name = ""  # the launcher's
        self.figures: Figures | None = None
        self.rebalancing: tuple[Rebalancing, ...] = ()  # that it said it runs
        self.opened: dict[int, Connection] = {}  # client connections the shard has been told of, by their ids
        self.pending: dict[int, tuple[Slot | Question, bytes]] = {}  # its open answers, with the requests' frames
        self.sent = 0  # requests, ever: that there were none tells an idle shard
        self.idle = Idle()

    def fields(self) -> dict[str, Fields]:
        """The `extra` of a log call whose line is about this process and the partition it hosts."""
        if self.kind is None or self.partition < 0:
            return about(pid=self.pid)
        return at(self.kind.topic, self.partition, epoch=self.epoch, pid=self.pid)

    @property
    def where(self) -> str:
        """The partition that it hosts, for people."""
        return f"{self.kind.partition_name} {self.partition}" if self.kind is not None else "no partition"

    @property
    def active(self) -> bool:
        """True if it serves its partition."""
        return self.state is LinkState.ACTIVE or self.state is LinkState.DROWSY

    def greet(self, pid: int, name: str = "") -> None:
        """The process has said HELLO."""
        self._move(LinkState.SPARE)
        self.pid, self.name = pid, name

    def assign(self, kind: CoordinatorKind, partition: int, epoch: int, handlers: Mapping[int, Handle]) -> None:
        """Note that the process is to host a partition at this leader epoch. `handlers` have what it says of it."""
        self._move(LinkState.LOADING)
        self.kind, self.handlers = kind, handlers
        self.partition, self.epoch = partition, epoch
        self.idle = Idle()

    def activate(self) -> None:
        """The process has loaded its partition and serves."""
        self._move(LinkState.ACTIVE)

    def doze(self, question: int) -> None:
        """The process has been asked whether it may sleep. It serves on."""
        self._move(LinkState.DROWSY)
        self.idle.question, self.idle.sent = question, self.sent

    def rouse(self) -> None:
        """The process is not to sleep now."""
        self._move(LinkState.ACTIVE)

    def leave(self, state: LinkState) -> dict[int, tuple[Slot | Question, bytes]]:
        """The process hosts nothing any more: it has RESIGNED or is GONE. Returns the requests it has not answered."""
        self._move(state)
        self.partition = self.epoch = -1
        self.opened.clear()
        owed, self.pending = self.pending, {}
        return owed

    def _move(self, state: LinkState) -> None:
        if self.state not in _FROM[state]:
            raise LinkStateError(f"shard pid {self.pid} cannot become {state.value}: it is {self.state.value}")
        self.state = state
