"""A slot of a pool: the place of one member, and the actor that has it now. supervision.py fills it.

A slot counts records in two ways. `done` has each record once, for users who wait until all are: when a process dies,
records that it had not committed do not count any more, because they come again. `handlings` has them as often as they
were handled, for figures that never go down, and for what a handler takes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from actors.links.member import MemberAddress, MemberReport
from actors.links.member_counts import Done
from actors.links.member_deaths import InHand, Notes
from actors.links.pools import MemberFigures
from actors.members.member_link import MemberClient
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.lease import Lease
from actors.members.pools.slot_life import Event, Rule, SlotLife, Stage, Wanted
from actors.members.pools.status import MemberStatus

_FAILED: Final = ("Failing", "Failed")
_ENDED: Final = ("Stopped", "Failed")


class Started(Protocol):
    """An actor that has been asked for; `StartedActor`."""

    def address(self, timeout_s: float) -> MemberAddress | None: ...
    def is_placed(self) -> bool: ...
    def serve(self, *, wait: bool = False) -> None: ...
    def kill(self) -> None: ...
    def how_it_died(self, timeout_s: float) -> str | None:
        """The end of its process in words; None for an end that no record can cause.

        Raises TimeoutError if Ray does not say within `timeout_s`.
        """
        ...


class Starter(Protocol):
    """Asks for actors; `ActorStarter`. `wants` says in words what an actor needs."""

    wants: str

    def start(self, spec: MemberSpec) -> Started: ...


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version of a pool: how its members consume, and who starts them with which handler. `mark` tells it apart."""

    spec: MemberSpec
    starter: Starter
    mark: str = ""
    number: int = 0
    """1, 2, ... of a deployed pool; 0 if it is none."""


@dataclass(slots=True, eq=False)
class Asked:
    """An actor that has been asked for, and what it is started with.

    It has a `link` if its handler is set up already, and it waits to be told to join.
    """

    actor: Started
    spec: MemberSpec
    version: Version
    link: MemberClient | None = None

    def serve(self) -> None:
        """Have it join the group."""
        if self.link is not None:
            self.link.join()
        else:
            self.actor.serve()

    def drop(self) -> None:
        """End it."""
        self.hang_up()
        self.actor.kill()

    @contextlib.contextmanager
    def hung_up_if_it_fails(self) -> Iterator[None]:
        """Close its connection, if what is done with it raises."""
        try:
            yield
        except BaseException:  # Ctrl-C, too: a connection that nobody has would stay open
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Close its connection, if it has one."""
        if self.link is not None:
            self.link.close()


@dataclass(frozen=True, slots=True)
class Tally:
    """Records handled and dead letters, those that came again included, and successors of the first actor."""

    handled: int = 0
    dead_letters: int = 0
    restarts: int = -1


@dataclass(eq=False, slots=True)
class Slot:
    """A place in the pool, and the actor that has it now."""

    number: int
    instance_id: str
    together: Together
    """The members that are started with its first one."""
    version: Version
    """The version of its next actor, and of the present one unless it is `renewing`."""
    life: SlotLife = field(default_factory=SlotLife)
    """Its stage, and what is wanted of it."""
    actor: Started | None = None
    link: MemberClient | None = None
    pid: int = 0
    node_id: str = ""
    report: MemberReport = field(default_factory=MemberReport)
    reading: MemberClient | None = None
    """The connection while its reports are read, which they are not while it waits for those it starts with."""
    in_hand: InHand = field(default_factory=InHand)
    """The records that its member has in hand, as it has said."""
    killed: str = ""
    """The reason why the pool has killed its process, which it has said; "" if it has not."""
    lease: Lease = field(default_factory=Lease)
    """The lease of its member, if it has one."""
    lost: str = ""
    """The reason why the pool has given its process up, if that has not ended its connection by itself."""
    committing: Done = field(default_factory=Done)
    """The records of its member's commits, as it has said before each."""
    done_before: Done = field(default_factory=Done)
    handlings_before: Done = field(default_factory=Done)
    busy_ms_before: int = 0
    restarts: int = -1
    started_at: float = 0.0
    started_version: int = 0
    """The number of the version that its present actor is of."""
    running_since: float | None = None
    renewed_at: float = 0.0
    """The time at which its member was told to end; infinite while it goes on until its successor is ready."""
    standby: Asked | None = None
    """Its successor, which is being started while its member goes on, or is ready."""
    since: Tally = Tally()
    """Its counts when its version was begun with."""
    hurry: threading.Event = field(default_factory=threading.Event)
    """Ends the pause before the next start."""
    thread: threading.Thread | None = None
    heard: bool = False
    """True if the thread may still hear of its member."""

    @property
    def failed(self) -> bool:
        """True if it has no member any more, or is about to have none."""
        return self.report.state in _FAILED

    @property
    def renewing(self) -> bool:
        """True if its member is to end and to have a successor, which is of `version`."""
        return self.life.wanted is Wanted.SUCCESSOR

    @property
    def retired(self) -> bool:
        """True if it is to have no member any more."""
        return self.life.wanted is Wanted.NONE

    @property
    def waits(self) -> bool:
        """True if its actor waits for resources of Ray's."""
        return self.life.stage is Stage.WAITING

    @property
    def over(self) -> bool:
        """True if its thread has given it up."""
        return self.life.stage is Stage.OVER

    @property
    def settled(self) -> bool:
        """True if no change of it is about to come that the group would notice."""
        return self.waits or self.report.state in ("Running", "Failed")

    @property
    def linked_or_over(self) -> bool:
        """True if a call of its member need not wait."""
        return self.link is not None or self.waits or self.retired or self.failed

    @property
    def done(self) -> Done:
        """The records of all its actors, each once."""
        return self.done_before + self._done_now

    @property
    def _done_now(self) -> Done:
        return self._handlings_now - self.report.again

    @property
    def handlings(self) -> Done:
        """The records of all its actors, as often as they were handled."""
        return self.handlings_before + self._handlings_now

    @property
    def _handlings_now(self) -> Done:
        return Done(self.report.handled, self.report.dead_letters)

    @property
    def handled(self) -> int:
        """The records that all its actors have handled, each once."""
        return self.done.handled

    @property
    def busy_ms(self) -> int:
        """The milliseconds for which the handlers of all its actors have run."""
        return self.busy_ms_before + self.report.busy_ms

    @property
    def tally(self) -> Tally:
        """Its counts until now."""
        return Tally(self.handlings.handled, self.handlings.dead_letters, self.restarts)

    def status(self) -> MemberStatus:
        """As users see it."""
        report = self.report
        return MemberStatus(
            slot=self.number,
            pid=self.pid,
            node_id=self.node_id,
            state=report.state,
            error=report.error,
            member_id=report.member_id,
            generation_id=report.generation_id,
            assignment=report.assignment,
            handled=self.done.handled,
            dead_letters=self.done.dead_letters,
            restarts=max(self.restarts, 0),
            version=self.started_version,
        )

    def figures(self) -> MemberFigures:
        """As operators see it."""
        return MemberFigures(
            instance_id=self.instance_id,
            handled=self.handlings.handled,
            dead_letters=self.handlings.dead_letters,
            restarts=max(self.restarts, 0),
            busy_ms=self.busy_ms,
            handling_ms=self.report.handling_ms,
        )

    def begin(self, actor: Started, now_s: float) -> None:
        """The next actor has been asked for; what the one before it has counted is kept."""
        self.ended()
        self.report = MemberReport()
        self.killed = self.lost = ""
        self.lease = Lease()
        self.in_hand = InHand()
        self.link = None
        self.actor = actor
        self.restarts += 1
        self.started_at = now_s
        self.started_version = self.version.number
        self.running_since = None

    def commits(self, done: Done) -> None:
        """Its member commits these records, or has done so. A report may say less: it was made before."""
        self.committing = max(self.committing, done)

    def ended(self) -> None:
        """Its member has ended, and all that it said was heard. Records that it has not committed come again."""
        report = self.report
        self.done_before += self._done_now if report.state in _ENDED else self.committing
        self.handlings_before, self.busy_ms_before = self.handlings, self.busy_ms
        self.report = replace(report, handled=0, dead_letters=0, busy_ms=0, again=Done(), committing=Done())
        self.committing = Done()

    def kill(self) -> None:
        """End its actor, if it has one."""
        if self.actor is not None:
            self.actor.kill()

    def take_standby(self) -> Asked | None:
        """Its successor, if that is ready and still wanted. Another one is ended."""
        found, self.standby = self.standby, None
        if found is not None and (found.link is None or found.version is not self.version):
            found.drop()
            return None
        return found

    def drop_standby(self) -> None:
        """End a successor that is not wanted any more."""
        found, self.standby = self.standby, None
        if found is not None:
            found.drop()

    def member_spec(self, expected: int, notes: Notes) -> MemberSpec:
        """The spec of its next actor; `expected` members are expected in the group."""
        options = {
            # The group's place is the slot's: a replacement is the same static member, so nothing is rebalanced.
            "group_instance_id": self.instance_id,
            "client_id": f"coterie-{self.number}",
            "group_expected_members": expected,
            **self.version.spec.options,
        }
        return replace(self.version.spec, options=options, version=self.version.number, notes=notes)

    def renew(self, version: Version, now_s: float) -> Rule:
        """Its member is to end, and its next actor to be started with this."""
        self.version = version
        self.renewed_at = now_s
        self.hurry.set()
        return self.life.hear(Event.RENEW)

    def next(self) -> bool:
        """Its next actor may be asked for. Returns whether it is to have one."""
        rule = self.life.hear(Event.BEGIN)
        if rule is Rule.ASK_ANEW:
            self.since = self.tally
        if rule is not Rule.LEAVE:
            self.hurry.clear()
        return rule is not Rule.LEAVE

    def retire(self) -> None:
        """It is to have no member any more."""
        self.life.hear(Event.RETIRE)
        self.hurry.set()
        self.together.ready(self.number)


class Together:
    """The members that one change of size adds. Each joins the group when all have started, in one rebalance.

    A member that fails, waits for resources or is not wanted any more is not waited for.
    """

    def __init__(self, count: int) -> None:
        self._starting = count
        self._changed = threading.Condition()
        self._gone: set[int] = set()

    def ready(self, number: int) -> None:
        """The slot with this number is not waited for, now or later."""
        with self._changed:
            self._gone.add(number)
            self._changed.notify_all()

    def wait(self, unwanted: Callable[[], bool], timeout_s: float) -> None:
        """Wait for the others, unless the member that waits is not wanted any more."""
        with self._changed:
            self._changed.wait_for(lambda: unwanted() or len(self._gone) >= self._starting, timeout_s)
