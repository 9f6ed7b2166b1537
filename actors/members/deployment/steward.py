"""A supervisor's work: it follows the topic, and has its pool be what is wished there. No Ray here.

One thread does everything, `run`; others may ask `describe` and call `close`. All that a successor has to know stands
in the topic, so this may end at any point. If the brokers do not answer, the members go on as they are.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.client.errors import KafkaError
from actors.links.member_deaths import Note
from actors.members.autoscale import Autoscale
from actors.members.crew import Crew
from actors.members.deployment import view
from actors.members.deployment.description import PoolDescription
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import (
    Deaths,
    Deployment,
    Good,
    PoolRecord,
    Progress,
    Term,
    python_version,
)
from actors.members.deployment.rollout import OVERDUE, EndNow, Phase, Renew, Rollout
from actors.members.deployment.seals import Seals
from actors.members.logs.gathering import Wanted
from actors.members.logs.journal import MemberLine
from actors.members.plan import PoolError, PoolPlan
from actors.members.slots import Version
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.process import error_text

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_RETRY_MAX_SECONDS: Final = 10.0
_ROLLING_MS: Final = 100
_IDLE_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Here:
    """The supervisor's process, and the actor whose process it is."""

    pid: int
    node_id: str
    actor_id: str
    restarted: bool = False
    """Whether the actor had another process before."""
    after: str = ""
    """The actor that looked after the pool when this one was wanted."""


class Steward:
    """Looks after the pool `name`, whose members reach the brokers by `bootstrap_servers`.

    `superseded` is called when another supervisor has taken the pool over; it ends the process, and its members do.
    `seals` say which versions may be loaded; None where there are none.
    """

    def __init__(
        self,
        name: str,
        bootstrap_servers: str,
        topic: PoolsTopic,
        here: Here,
        superseded: Callable[[], None],
        seals: Seals | None = None,
        environment: Environment = REAL,
    ) -> None:
        self.name = name
        self._servers = bootstrap_servers
        self._topic = topic
        self._here = here
        self._superseded = superseded
        self._seals = seals
        self._environment = environment
        self._id = f"{here.actor_id}/{new_uuid(environment.chance).hex}"
        self._closing = threading.Event()
        self._ruling = self._claimed = self._last_ruled = ""  # incarnations
        self._record: PoolRecord | None = None
        self._crew: Crew | None = None
        self._rollout: Rollout | None = None
        self._aim: tuple[str, str] = ("", "")  # the deployment and the restart that the rollout is of
        self._from_version = 0
        self._made: dict[str, tuple[Version, Deployment]] = {}
        self._base: Version | None = None  # what is gone back to, and what members run that a rollout has not reached
        self._written: Progress | None = None
        self._noted: tuple[Note, ...] = ()  # as the topic has it
        self._good = ""  # the id of the version that was written down as good
        self._rolled_back: str | None = None
        self._paused = False
        self._policy: Autoscale | None = None
        self._stuck = False  # no version of it can be loaded, or something else keeps it from beginning
        self._last_error: str | None = None
        self.over = False
        """Whether there is no such pool any more, and nothing is left to do."""

    # --- for other threads ---

    def describe(self) -> PoolDescription | None:
        """The pool now; None if nothing is known of it yet."""
        record, crew, rollout = self._record, self._crew, self._rollout
        if record is None:
            return None
        return view.supervised(
            self.name,
            record,
            crew,
            rollout,
            rolled_back=self._rolled_back or record.rolled_back,
            from_version=self._from_version,
            running=self._running,
            servers=self._servers,
            over=self.over,
            stuck=self._stuck,
            last_error=self._last_error,
            pid=self._here.pid,
            node_id=self._here.node_id,
        )

    def logs(self, wanted: Wanted) -> list[MemberLine]:
        """What the members have printed and logged. Raises PoolError if that cannot be wanted."""
        crew = self._crew
        return crew.logs(wanted) if crew is not None else []

    def close(self, timeout_s: float) -> None:
        """Have the members finish and commit, and end. They keep their places in the group, for successors."""
        self._closing.set()
        if self._crew is not None:
            self._crew.stop(timeout_s, leave=False)

    # --- the thread ---

    def run(self) -> None:
        """Work until there is no such pool any more, or `close`."""
        pause_s = 0.0
        while not (self._closing.is_set() or self.over):
            self._closing.wait(pause_s)
            pause_s = min(max(2 * pause_s, _RETRY_SECONDS), _RETRY_MAX_SECONDS)
            try:
                with self._topic.follow(self.name) as following:  # the handlers of others may be large
                    while not (self._closing.is_set() or self.over):
                        self._obey(following.book.pool(self.name))
                        pause_s, self._stuck = 0.0, False
                        settled = self._rollout is not None and self._rollout.over
                        following.poll(_IDLE_MS if settled else _ROLLING_MS)
            except (KafkaError, OSError, PoolError) as error:
                if not self._closing.is_set():
                    log.warning("pool %s: %s", self.name, error)
                    self._last_error, self._stuck = error_text(error), isinstance(error, PoolError)
            except Exception as error:  # nobody looks at this thread, and the members go on
                log.exception("pool %s", self.name)
                self._last_error = f"{type(error).__name__}: {error_text(error)}"

    def _obey(self, record: PoolRecord | None) -> None:
        self._last_ruled = self._ruling or self._last_ruled
        if record is None or (self._ruling and record.deployment.incarnation != self._ruling):
            self._dismiss()
        if record is None:
            if self._seals is not None:
                self._seals.ended(self.name, self._last_ruled)
            self.over = True
            return
        if not self._rules(record):
            return
        self._record = record
        if self._crew is None:
            self._begin(record)
        elif self._aim != (record.deployment.id, record.restart):
            self._turn_to(record)
        self._fit(record)
        self._advance(record)
        self._note_deaths(record)

    def _rules(self, record: PoolRecord) -> bool:
        """Whether this supervisor looks after the pool: its word is the last one, and it has read it."""
        incarnation = record.deployment.incarnation
        if record.term == self._id:
            self._ruling = incarnation
        elif self._ruling == incarnation:
            log.warning("pool %s: another supervisor has taken it over", self.name)
            self._superseded()
        elif self._here.restarted and record.actor not in ("", self._here.actor_id, self._here.after):
            log.warning("pool %s: an actor on another Ray has taken it over", self.name)
            self.over = True  # or the two would take it from each other for ever
        elif self._claimed != incarnation:
            self._topic.write(self.name, Term(incarnation, self._id))
            self._claimed = incarnation
        return self._ruling == incarnation

    def _dismiss(self) -> None:
        """The pool was stopped: all members leave."""
        if self._crew is not None:
            self._crew.keep_size()
            self._crew.stop()
        self._crew = self._rollout = None
        self._ruling, self._aim, self._written, self._good = "", ("", ""), None, ""
        self._made.clear()

    # --- versions ---

    def _version(self, deployment: Deployment, restart: str) -> Version:
        """What members of a version are started with. Raises PoolError if it cannot be loaded here."""
        mark = f"{deployment.id}/{restart}"
        if self._seals is not None:
            self._seals.check(self.name, deployment)  # also one that is loaded already: it may be an old record again
        if mark not in self._made:
            self._made[mark] = (load(deployment, self._servers, mark), deployment)
        return self._made[mark][0]

    @property
    def _running(self) -> Deployment | None:
        """The version that members are turned to now."""
        made = self._made.get(self._rollout.mark) if self._rollout is not None else None
        return made[1] if made is not None else None

    def _begin(self, record: PoolRecord) -> None:
        """Start the members: with the version that was good, but for those places in which a newer one was."""
        good = self._good_one(record)
        base = self._version(good, record.restart)
        self._rolled_back, self._good = record.rolled_back, good.id if good is record.good else ""
        target = self._load_or_go_back(record, base)
        done = record.progress.done if record.progress and record.progress.deployment == record.deployment.id else ()
        crew = Crew(base, self.name, self._environment, leash=True, notes=record.notes)
        self._noted = record.notes
        try:
            crew.remove_strangers(record.size)
            if not record.paused:
                reason = "the supervisor begins"
                crew.change_size(record.size, reason, version_of=lambda slot: target if slot in done else base)
        except BaseException:  # it is begun anew, and this one's threads would go on
            crew.stop(leave=False)
            raise
        self._rollout = Rollout(target.mark, base.mark, done if target is not base else ())
        self._aim = (record.deployment.id, record.restart)
        self._from_version = good.version
        self._base = base
        self._crew = crew

    def _good_one(self, record: PoolRecord) -> Deployment:
        """The version to begin with: the last good one, if it can still be loaded here."""
        if record.good is None:
            return record.wanted
        try:
            self._version(record.good, record.restart)
        except PoolError as error:
            log.warning("pool %s: there is no version to go back to: %s", self.name, error)
            return record.wanted
        return record.good

    def _turn_to(self, record: PoolRecord) -> None:
        """Begin to have another version, or a restart, go through the members."""
        assert self._crew is not None
        assert self._base is not None
        base = self._base
        self._from_version = self._made[base.mark][1].version
        if not self._good:  # nothing to go back to
            base = self._base = self._version(record.deployment, record.restart)
        self._rolled_back = record.rolled_back
        self._crew.slots.blame.forget()
        target = self._load_or_go_back(record, base)
        same = self._made[target.mark][1].id == self._made[base.mark][1].id
        self._rollout = Rollout(target.mark, None if same else base.mark)
        self._aim = (record.deployment.id, record.restart)
        self._made = {mark: self._made[mark] for mark in {base.mark, target.mark}}
        log.info("pool %s: version %d, from %d", self.name, record.deployment.version, self._from_version)

    def _load_or_go_back(self, record: PoolRecord, base: Version) -> Version:
        """The wanted version; `base` if it cannot be loaded, and the topic says so then."""
        try:
            return self._version(record.wanted, record.restart)
        except PoolError as error:
            if not self._good:
                raise
            self._last_error = self._rolled_back = str(error)
            return base

    # --- the members ---

    def _fit(self, record: PoolRecord) -> None:
        """Have as many members as are wished, or have the load decide."""
        crew = self._crew
        assert crew is not None
        size, policy, moves = len(crew.slots), record.wanted.policy, self._moves()
        crew.slots.version = self._version_of_new_places(size)
        if record.paused or policy != self._policy or moves:
            crew.keep_size()
            self._policy = policy
        reason = "resume was called" if self._paused else "scale was called"
        if record.paused:
            crew.change_size(0, "pause was called")
        elif policy is None:
            crew.change_size(record.size, reason)
        elif not crew.follows_load and not moves:
            bounded = min(max(record.size if self._paused else size, policy.min_size), policy.max_size)
            crew.change_size(bounded, reason if self._paused else "by the bounds of its load")
            crew.follow_load(policy)
        self._paused = record.paused

    def _version_of_new_places(self, size: int) -> Version:
        """Of a pool without members all begin with the wanted version: nobody is to see the one before again."""
        assert self._rollout is not None
        assert self._base is not None
        return self._base if size else self._made[self._rollout.mark][0]

    def _moves(self) -> bool:
        """Whether members are being replaced now."""
        assert self._rollout is not None
        assert self._crew is not None
        return self._rollout.moves(view.places(self._crew.slots))

    def _advance(self, record: PoolRecord) -> None:
        """Go a step on with the rollout, and write down how far it has come."""
        crew, rollout = self._crew, self._rollout
        assert crew is not None
        assert rollout is not None
        before = rollout.phase
        match rollout.step(view.places(crew.slots), self._environment.clock.monotonic()):
            case Renew(number, mark):
                for slot in crew.slots.all():
                    if slot.number == number:
                        # Who goes back is rid of the version that does not work at once.
                        beside = rollout.phase is not Phase.RETURNING
                        crew.slots.renew(slot, self._made[mark][0], beside=beside)
            case EndNow(number):
                for slot in crew.slots.all():
                    if slot.number == number:
                        crew.slots.end_now(slot, OVERDUE)
        if rollout.phase is not before:
            log.info("pool %s: %s -> %s %s", self.name, before.value, rollout.phase.value, rollout.reason or "")
            self._last_error = rollout.reason or self._last_error
        if rollout.phase is Phase.RETURNING:
            self._rolled_back = rollout.reason
        self._write_down(record, crew, rollout)

    def _write_down(self, record: PoolRecord, crew: Crew, rollout: Rollout) -> None:
        newest, running = record.deployment, self._made[rollout.mark][1]
        if rollout.phase is Phase.DONE:
            self._base = crew.slots.version = self._made[rollout.mark][0]
            if running.id != self._good:
                self._keep_good(Good(newest.incarnation, running))
                self._good = running.id
        size = len(crew.slots) if crew.follows_load else record.progress.size if record.progress else None
        done = tuple(sorted(rollout.done)) if rollout.phase is Phase.ROLLING and running.id == newest.id else ()
        self._note(Progress(newest.incarnation, newest.id, done, self._rolled_back, size), record.progress)

    def _keep_good(self, good: Good) -> None:
        try:
            if self._seals is not None:
                self._seals.proven(self.name, good.deployment)
            self._topic.write(self.name, good)
        except PoolError as error:  # by a few bytes longer than the version itself
            log.warning("pool %s: this version cannot be gone back to: %s", self.name, error)

    def _note_deaths(self, record: PoolRecord) -> None:
        """Write down which records were in hand of members that died, and what of it is over."""
        assert self._crew is not None
        notes = self._crew.slots.blame.notes.notes
        if notes == self._noted:
            return
        newest = record.deployment
        try:
            self._topic.write(self.name, Deaths(newest.incarnation, newest.id, record.restart, notes))
        except PoolError as error:  # members know it, and only the next supervisor would not
            log.warning("pool %s: which records were in hand of its dead members is not kept: %s", self.name, error)
        self._noted = notes

    def _note(self, progress: Progress, known: Progress | None = None) -> None:
        known = self._written or known or Progress(progress.incarnation, progress.deployment)
        if progress != known:
            self._topic.write(self.name, progress)
        self._written = progress


def load(deployment: Deployment, bootstrap_servers: str, mark: str) -> Version:
    """What its members are started with. This runs code of the handler's. Raises PoolError if that fails."""
    try:
        arguments: dict[str, Any] = pickle.loads(deployment.body)
        arguments |= {"bootstrap_servers": bootstrap_servers}
        return PoolPlan.of(**arguments).version(mark, deployment.version)
    except PoolError:
        raise
    except Exception as error:  # whatever the user's modules raise
        text = f"version {deployment.version} cannot be loaded: {type(error).__name__}: {error_text(error)}"
        if deployment.python != python_version():
            text += f" (it was deployed by Python {deployment.python}, and this is {python_version()})"
        raise PoolError(text) from error
