"""A deployed pool while its supervisor looks after it: its members, and the version that goes through them.

Made complete by `begin`, for one pool; `steward` makes another one for another pool of the name. The topic has all
that the next one has to know.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Self

from actors.links.member_deaths import Note
from actors.members.autoscale import Autoscale
from actors.members.deployment import view
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import Deaths, Deployment, Good, PoolRecord, Progress
from actors.members.deployment.rollout import OVERDUE, EndNow, Phase, Renew, Rollout, Step
from actors.members.deployment.seals import Seals
from actors.members.deployment.versions import Versions
from actors.members.pools.members import PoolMembers
from actors.members.pools.plan import PoolError
from actors.members.pools.slots import Slot, Version
from actors.runtime.environment import Environment

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Trouble:
    """The trouble of a pool, as its supervisor knows it."""

    error: str | None = None
    """The last error."""
    stuck: bool = False
    """True if no version of it can be loaded, or something else keeps it from beginning."""


@dataclass(frozen=True, slots=True)
class Means:
    """The means by which a supervisor looks after its pool."""

    name: str
    topic: PoolsTopic
    seals: Seals
    versions: Versions
    trouble: Trouble
    environment: Environment


@dataclass(frozen=True, slots=True)
class Course:
    """The versions that the members go from and to."""

    base: Version
    """The version to go back to, which members have that the rollout has not reached."""
    good: str
    """The id of the version that was written down as good; "" if none was."""
    rollout: Rollout
    aim: tuple[str, str]
    """The deployment and the restart that the rollout is of."""
    from_version: int


def _aim(record: PoolRecord) -> tuple[str, str]:
    return record.deployment.id, record.restart


class Tending:
    """The members of one pool, and where they go. Made by `begin`."""

    def __init__(
        self, means: Means, members: PoolMembers, course: Course, record: PoolRecord, rolled_back: str | None
    ) -> None:
        self.members = members
        self.rolled_back = rolled_back
        """The reason why the newest version was given up; None if it was not."""
        self._means = means
        self._course = course
        self._written: Progress | None = None
        self._noted: tuple[Note, ...] = record.notes  # as the topic has it
        self._paused = False
        self._policy: Autoscale | None = None

    @classmethod
    def begin(cls, means: Means, record: PoolRecord) -> Self:
        """Start the members: with the version that was good, but for those places in which a newer one was.

        Raises PoolError if no version can be loaded, and KafkaError.
        """
        good = _good_one(means.versions, means.name, record)
        base = means.versions.load(good, record.restart)
        known_good = good.id if good is record.good else ""
        target, gave_up = _load_or_go_back(means, record, base, known_good)
        done = record.progress.done if record.progress and record.progress.deployment == record.deployment.id else ()
        members = PoolMembers(base, means.name, means.environment, leased=True, notes=record.notes)
        try:
            members.remove_strangers(record.size)
            if not record.paused:
                reason = "the supervisor begins"
                members.change_size(record.size, reason, version_of=lambda slot: target if slot in done else base)
        except BaseException:  # it is begun anew, and this one's threads would go on
            members.stop(leave=False)
            raise
        rollout = Rollout(target.mark, base.mark, done if target is not base else ())
        course = Course(base, known_good, rollout, _aim(record), good.version)
        return cls(means, members, course, record, gave_up or record.rolled_back)

    # --- for other threads ---

    @property
    def rollout(self) -> Rollout:
        """The rollout of the version that goes through the members."""
        return self._course.rollout

    @property
    def from_version(self) -> int:
        """The number of the version that members had before."""
        return self._course.from_version

    @property
    def running(self) -> Deployment | None:
        """The version that members are turned to now."""
        return self._means.versions.deployment(self.rollout.mark)

    # --- for the supervisor's thread ---

    def obey(self, record: PoolRecord) -> None:
        """Go a step on towards what is wished."""
        if self._course.aim != _aim(record):
            self._turn_to(record)
        self._fit(record)
        self._advance(record)
        self._note_deaths(record)

    def dismiss(self) -> None:
        """The pool was stopped: all members leave."""
        self.members.keep_size()
        self.members.stop()

    def _turn_to(self, record: PoolRecord) -> None:
        """Begin to have another version, or a restart, go through the members."""
        before, versions = self._course, self._means.versions
        base = before.base
        from_version = self._made(base.mark).version
        if not before.good:  # nothing to go back to
            base = versions.load(record.deployment, record.restart)
        self.members.slots.blame.forget()
        target, gave_up = _load_or_go_back(self._means, record, base, before.good)
        self.rolled_back = gave_up or record.rolled_back
        same = self._made(target.mark).id == self._made(base.mark).id
        rollout = Rollout(target.mark, None if same else base.mark)
        self._course = Course(base, before.good, rollout, _aim(record), from_version)
        versions.keep({base.mark, target.mark})
        log.info("pool %s: version %d, from %d", self._means.name, record.deployment.version, from_version)

    def _made(self, mark: str) -> Deployment:
        found = self._means.versions.deployment(mark)
        assert found is not None  # the versions that members run, or are to run, are kept
        return found

    # --- the members ---

    def _fit(self, record: PoolRecord) -> None:
        """Have as many members as are wished, or have the load decide."""
        members = self.members
        size, policy, moves = len(members.slots), record.wanted.policy, self._moves()
        members.slots.version = self._version_of_new_places(size)
        if record.paused or policy != self._policy or moves:
            members.keep_size()
            self._policy = policy
        reason = "resume was called" if self._paused else "scale was called"
        if record.paused:
            members.change_size(0, "pause was called")
        elif policy is None:
            members.change_size(record.size, reason)
        elif not members.follows_load and not moves:
            bounded = min(max(record.size if self._paused else size, policy.min_size), policy.max_size)
            members.change_size(bounded, reason if self._paused else "by the bounds of its load")
            members.follow_load(policy)
        self._paused = record.paused

    def _version_of_new_places(self, size: int) -> Version:
        """Of a pool without members all begin with the wanted version: nobody is to see the one before again."""
        return self._course.base if size else self._means.versions.version(self.rollout.mark)

    def _moves(self) -> bool:
        """True if members are being replaced now."""
        return self.rollout.moves(view.places(self.members.slots))

    def _advance(self, record: PoolRecord) -> None:
        """Go a step on with the rollout, and write down how far it has come."""
        rollout = self.rollout
        before = rollout.phase
        self._carry_out(rollout.step(view.places(self.members.slots), self._means.environment.clock.monotonic()))
        if rollout.phase is not before:
            text = "pool %s: %s -> %s %s"
            log.info(text, self._means.name, before.value, rollout.phase.value, rollout.reason or "")
            self._means.trouble.error = rollout.reason or self._means.trouble.error
        if rollout.phase is Phase.RETURNING:
            self.rolled_back = rollout.reason
        self._write_down(record)

    def _carry_out(self, step: Step) -> None:
        match step:
            case Renew(number, mark):
                for slot in self._slots_of(number):
                    # A member that goes back is rid of the version that does not work at once.
                    beside = self.rollout.phase is not Phase.RETURNING
                    self.members.slots.renew(slot, self._means.versions.version(mark), beside=beside)
            case EndNow(number):
                for slot in self._slots_of(number):
                    self.members.slots.end_now(slot, OVERDUE)

    def _slots_of(self, number: int) -> list[Slot]:
        return [slot for slot in self.members.slots.all() if slot.number == number]

    # --- the topic ---

    def _write_down(self, record: PoolRecord) -> None:
        newest, members, rollout = record.deployment, self.members, self.rollout
        running = self._made(rollout.mark)
        if rollout.phase is Phase.DONE:
            base = members.slots.version = self._means.versions.version(rollout.mark)
            self._course = replace(self._course, base=base)
            if running.id != self._course.good:
                self._keep_good(Good(newest.incarnation, running))
                self._course = replace(self._course, good=running.id)
        size = len(members.slots) if members.follows_load else record.progress.size if record.progress else None
        done = tuple(sorted(rollout.done)) if rollout.phase is Phase.ROLLING and running.id == newest.id else ()
        self._note(Progress(newest.incarnation, newest.id, done, self.rolled_back, size), record.progress)

    def _keep_good(self, good: Good) -> None:
        try:
            self._means.seals.proven(self._means.name, good.deployment)
            self._means.topic.write(self._means.name, good)
        except PoolError as error:  # by a few bytes longer than the version itself
            log.warning("pool %s: this version cannot be gone back to: %s", self._means.name, error)

    def _note_deaths(self, record: PoolRecord) -> None:
        """Write down which records were in hand of members that died, and what of it is over."""
        notes = self.members.slots.blame.notes.notes
        if notes == self._noted:
            return
        newest, name = record.deployment, self._means.name
        try:
            self._means.topic.write(name, Deaths(newest.incarnation, newest.id, record.restart, notes))
        except PoolError as error:  # members know it, and only the next supervisor would not
            log.warning("pool %s: which records were in hand of its dead members is not kept: %s", name, error)
        self._noted = notes

    def _note(self, progress: Progress, known: Progress | None = None) -> None:
        known = self._written or known or Progress(progress.incarnation, progress.deployment)
        if progress != known:
            self._means.topic.write(self._means.name, progress)
        self._written = progress


def _good_one(versions: Versions, name: str, record: PoolRecord) -> Deployment:
    """The version to begin with: the last good one, if it can still be loaded here."""
    if record.good is None:
        return record.wanted
    try:
        versions.load(record.good, record.restart)
    except PoolError as error:
        log.warning("pool %s: there is no version to go back to: %s", name, error)
        return record.wanted
    return record.good


def _load_or_go_back(means: Means, record: PoolRecord, base: Version, good: str) -> tuple[Version, str | None]:
    """The wanted version, and None; `base`, and why the wanted one was given up, if it cannot be loaded."""
    try:
        return means.versions.load(record.wanted, record.restart), None
    except PoolError as error:
        if not good:
            raise
        means.trouble.error = str(error)
        return base, str(error)
