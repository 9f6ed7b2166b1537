"""Supervision of a pool's slots: a thread for each starts its actor, reads its reports, and starts the next.

A slot keeps its `group.instance.id` through the deaths of its actors, so that nothing is rebalanced for the others.
pool.py has what the pool's users call; consumer_actor.py has the calls of Ray.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from actors.links.member import MemberAddress, MemberReport
from actors.links.member_deaths import Note
from actors.links.pools import MemberFigures
from actors.members.logs.journal import Journal
from actors.members.member_link import MemberClient
from actors.members.pools.blame import Blame
from actors.members.pools.consumer_actor import why_not_started
from actors.members.pools.hindered import Hindered
from actors.members.pools.process_end import await_end
from actors.members.pools.restarts import SLOW_SECONDS, Outcome, Restarts, died
from actors.members.pools.slot_life import Event, Rule, reported
from actors.members.pools.slot_words import SlotWords
from actors.members.pools.slots import Asked, Slot, Started, Together, Version
from actors.members.pools.standby import ROOM_SECONDS, Standbys
from actors.members.pools.totals import Totals
from actors.members.pools.watch.overrun import START_SECONDS, overrun
from actors.runtime.environment import REAL
from actors.runtime.ray_session import RayAwayError

_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The most seconds for which slots are patient."""

    room_s: float = ROOM_SECONDS
    """For an actor without a node, until it counts as waiting for Ray."""
    together_s: float = 30.0
    """For the members that are started with one, before it joins."""
    restart_s: float = SLOW_SECONDS
    """Between two starts."""


PATIENCE: Final = Patience()


class Supervision:
    """The slots of one pool, and a thread for each. `changed` is notified after each report, and guards them.

    New places are of `version`. `remove` takes static members out of the group, by their instance ids, and says why.
    `journal` gets what becomes of them. `notes` are of records that were in hand when members of an earlier supervisor
    died. `left` says why this process has left its Ray, "" if it has not.
    """

    def __init__(
        self,
        version: Version,
        remove: Callable[[list[str], str], None],
        *,
        instance_prefix: str,
        monotonic: Callable[[], float],
        connect: Callable[[MemberAddress], MemberClient] | None = None,
        journal: Journal | None = None,
        notes: Iterable[Note] = (),
        left: Callable[[], str] = lambda: "",
        patience: Patience = PATIENCE,
    ) -> None:
        self.journal = journal or Journal(REAL.clock.wall_ms)
        self.changed = threading.Condition(threading.RLock())
        self.version = version
        self._remove = remove
        self._instance_prefix = instance_prefix
        self._monotonic = monotonic
        self._connect = connect or MemberClient.to
        self._left = left
        self._patience = patience
        self._words = SlotWords(self.journal, left)
        self._slots: dict[int, Slot] = {}
        self._standbys = Standbys(
            self.changed, monotonic, self._connect, room_s=patience.room_s, give_up_s=START_SECONDS
        )
        self.blame = Blame(notes, self.changed, self._slots.values, self.journal, monotonic)
        self._totals = Totals()

    # --- what they do ---

    def __len__(self) -> int:
        return len(self._slots)

    def all(self) -> list[Slot]:
        """All slots, in their order."""
        with self.changed:
            return [self._slots[number] for number in sorted(self._slots)]

    def totals(self) -> tuple[int, float]:
        """All records handled since the pool began, repeats included, and the seconds their handlers took."""
        with self.changed:
            return self._totals.work(self._slots.values())

    def done(self) -> int:
        """The records that members have handled or set aside since the pool began, each once."""
        with self.changed:
            return self._totals.done(self._slots.values())

    def figures(self) -> tuple[MemberFigures, ...]:
        """The figures of each member since the pool began."""
        with self.changed:
            return tuple(slot.figures() for slot in self.all())

    # --- more and fewer ---

    def add(self, count: int, version_of: Callable[[int], Version] | None = None) -> list[Slot]:
        """Make places for more members, which `begin` starts. Places that are free are taken again.

        `version_of` says what a place is started with, by its number, if not with `version`.
        """
        together = Together(count)
        new = []
        for _ in range(count):
            number = next(n for n in itertools.count() if n not in self._slots)
            instance_id = f"{self._instance_prefix}-{number}"
            version = version_of(number) if version_of is not None else self.version
            slot = self._slots[number] = Slot(number, instance_id, together, version)
            new.append(slot)
        return new

    def begin(self, slots: Sequence[Slot]) -> None:
        """Start the members of these new places."""
        for slot in slots:
            thread = threading.Thread(target=self.supervise, args=(slot,), daemon=True)
            with self.changed:
                slot.thread, slot.heard = thread, True
            thread.start()

    def surplus(self, size: int) -> list[Slot]:
        """The places that go if `size` stay: first those without a member, then the last ones."""
        order = sorted(self.all(), key=lambda slot: (slot.waits or slot.failed, slot.number))
        return order[size:]

    def retire(
        self, slots: list[Slot], timeout_s: float, *, why: str, leave: bool = True, limit: str = "timeout_s"
    ) -> None:
        """Have members finish their record, commit and end, at the latest after `timeout_s`; then all leave at once.

        They are static members, so that the others notice nothing until they leave, and rebalance once. Without `leave`
        they keep their places in the group, for successors. The group learns `why`. `limit` is what users call the
        timeout.
        """
        with self.changed:  # so that no actor is started that nobody would end
            for slot in slots:
                slot.retire()
            links = [slot.link for slot in slots if slot.link is not None]
        for link in links:
            link.stop()
        deadline = self._monotonic() + timeout_s
        for slot in slots:
            if slot.thread is not None:
                slot.thread.join(max(0.0, deadline - self._monotonic()))
        for slot in slots:
            if slot.actor is not None:
                if slot.thread is not None and slot.thread.is_alive() and slot.link is not None:
                    took = f"it had not finished what it had in hand {timeout_s:g} s after it was told to stop"
                    self._words.kills(slot, f"{took} ({limit}={timeout_s:g})")
                slot.actor.kill()
            slot.drop_standby()
        joined = [slot.instance_id for slot in slots if slot.actor is not None and not slot.waits]
        if leave and joined:
            self._remove(joined, why)
        with self.changed:
            for slot in slots:
                self._drop(slot)
            self.changed.notify_all()

    def renew(self, slot: Slot, version: Version, *, beside: bool = True) -> None:
        """Have the member finish its record, commit and end, and a successor of `version` begin.

        That is the same static member, so the group notices nothing. A place that was given up is filled again. If it
        may be `beside`, the successor is made ready first.
        """
        with self.changed:
            rule = slot.renew(version, self._monotonic())
            link = slot.link
            slot.drop_standby()
            beside = beside and rule is Rule.REPLACE and not slot.failed
            if beside and self._standbys.begin(slot, self._asked):
                return
        if link is not None:
            link.stop()
        if rule is Rule.REFILL:
            self.begin([slot])

    def end_now(self, slot: Slot, why: str) -> None:
        """End the actor of a place as it is, and say why: what it has in hand comes again, at its successor."""
        if (actor := slot.actor) is not None:
            self._words.kills(slot, why)
            actor.kill()

    def _drop(self, slot: Slot) -> None:
        if self._slots.get(slot.number) is slot:
            del self._slots[slot.number]
            self._totals.drop(slot)

    # --- supervision ---

    def supervise(self, slot: Slot) -> None:
        """Run in a thread for each slot: start an actor, read its reports until the socket ends, start the next."""
        try:
            self._supervise(slot)
        finally:
            with self.changed:
                if slot.thread in (None, threading.current_thread()):  # not if another one has taken over
                    self._totals.heard_out(slot)

    def _supervise(self, slot: Slot) -> None:
        restarts = Restarts(self._patience.restart_s)
        while not slot.retired:
            slot.hurry.wait(restarts.pause_s)
            if slot.renewing:
                restarts.hear(Outcome.RENEWED)
            try:
                link = self._start(slot)
            except RayAwayError as away:
                restarts.hear(Outcome.AWAY)
                if self._ray_away(slot, away):
                    return
                continue
            except Exception as error:  # whatever it is, the slot must say so: nobody looks at this thread
                restarts.hear(Outcome.FAILED)
                if self._start_failed(slot, error, restarts):
                    return  # a handler that cannot even be made, most likely: `wait` says so
                continue
            finally:
                slot.together.ready(slot.number)
            if link is None:
                if slot.renewing:
                    slot.kill()  # another version is wanted
                continue
            restarts.hear(Outcome.STARTED)
            with self._keeping(slot, link):
                try:
                    self._read(slot, link)
                finally:
                    with self.changed:
                        slot.link = slot.reading = None  # `call` waits for the successor
                        slot.life.hear(Event.CLOSED)
                if self._ends(slot):
                    return
                counted = self.blame.count(slot)
                slot.kill()
                await_end(link, self._monotonic)
                with self.changed:
                    slot.ended()
            lived_s = self._monotonic() - slot.started_at
            restarts.hear(died(lived_s, counted=counted, renewing=slot.renewing))

    @contextlib.contextmanager
    def _keeping(self, slot: Slot, link: MemberClient) -> Iterator[None]:
        """Close the connection at the end, and keep what came over it at last."""
        with contextlib.closing(link):
            yield
        self.journal.keep(slot.number, slot.pid, link.last_lines, slot.started_version)

    def _ends(self, slot: Slot) -> bool:
        """Take in that a slot's member has ended, or end it now. Returns whether the slot gets no other member."""
        killed_failing = slot.killed and slot.report.state == "Failing"
        if killed_failing and self._hear(slot, Event.KILLED_FAILING) is Rule.FAIL:
            slot.kill()
            with self.changed:
                slot.report = replace(slot.report, state="Failed")
            self._failed(slot)
        with self.changed:
            rule = slot.life.hear(Event.ENDED_FAILED if slot.report.state == "Failed" else Event.ENDED)
            if rule is Rule.END:
                slot.ended()  # now: it may be given another thread at once
        if rule is Rule.SAY_DIED:
            self._words.died(slot)
        return rule is Rule.END

    def _hear(self, slot: Slot, event: Event) -> Rule:
        with self.changed:
            return slot.life.hear(event)

    def _failed(self, slot: Slot) -> None:
        """Its member has failed for good, and nobody comes back under its name.

        The others would wait for it as long as its session lasts.
        """
        self.journal.note(slot.number, f"the member with pid {slot.pid} has failed: {slot.report.error}")
        self._remove([slot.instance_id], "its member in the pool has failed")

    def _start_failed(self, slot: Slot, error: Exception, restarts: Restarts) -> bool:
        """Say so; returns whether the slot is given up, which it is not if another version is to be tried."""
        slot.kill()  # it may well live, and would be the same static member as the next one
        reason = why_not_started(error)
        self._words.not_started(slot, reason, restarts.failed)
        return self._starts_later(slot, reason, restarts.given_up)

    def _ray_away(self, slot: Slot, error: RayAwayError) -> bool:
        """Ray cannot be asked for an actor. Returns whether the slot is given up: this process has left its Ray."""
        if slot.report.error != (reason := str(error)):
            self.journal.note(slot.number, f"could not be started: {reason}")
        return self._starts_later(slot, reason, bool(self._left()))

    def _starts_later(self, slot: Slot, reason: str, given_up: bool) -> bool:
        given_up_for = Event.RAY_LEFT if self._left() else Event.STARTS_FAILED
        with self.changed:
            rule = slot.life.hear(given_up_for if given_up else Event.START_FAILED)
            slot.link = None
            slot.report = MemberReport("Failed" if rule is Rule.GIVE_UP else "Starting", reason)
            self.changed.notify_all()
        return rule is Rule.GIVE_UP

    def _start(self, slot: Slot) -> MemberClient | None:
        """Start an actor, and have it join when those that are started with it can. None if it is not wanted any more.

        Raises whatever keeps it from starting.
        """
        with self.changed:
            if not slot.next():
                return None
            asked = slot.take_standby() or self._asked(slot)
            actor, spec = asked.actor, asked.spec
            slot.begin(actor, self._monotonic())
        with asked.hung_up_if_it_fails():
            where = self._await_address(slot, actor)
        if where is None:
            asked.hang_up()
            return None
        link = asked.link or self._connect(where)
        link.on_records = partial(self.blame.hear, slot)
        with self.changed:
            slot.life.hear(Event.CONNECTED)
            slot.pid, slot.node_id, slot.link = where.pid, where.node_id, link
            notes = self.blame.notes
            self.changed.notify_all()
        if notes.number > spec.notes.number:  # since it was asked for
            link.learn(notes)
        self.journal.note(slot.number, f"pid {where.pid} begins, on node {where.node_id[:12]}")
        slot.together.ready(slot.number)
        slot.together.wait(lambda: slot.retired, self._patience.together_s)
        if self._hear(slot, Event.TOGETHER) is Rule.HANG_UP:  # it need not join first
            link.close()
            return None
        asked.serve()
        return link

    def _asked(self, slot: Slot) -> Asked:
        """Ask for an actor for a slot."""
        spec = slot.member_spec(sum(not each.waits for each in self._slots.values()), self.blame.notes)
        return Asked(slot.version.starter.start(spec), spec, slot.version)

    def _await_address(self, slot: Slot, actor: Started) -> MemberAddress | None:
        """The address the actor listens on; None if it is not wanted any more. To wait for resources is no failure.

        Raises TimeoutError if it is on a node and does not listen within two minutes, and what Ray raises.
        """
        asked_at = self._monotonic()
        placed_at: float | None = None
        while self._hear(slot, Event.LOOK) is Rule.LOOK:
            where = actor.address(_LOOK_SECONDS)
            if where is not None:
                self._look(slot, Event.PLACED)
                return where
            now = self._monotonic()
            if placed_at is None and actor.is_placed():
                placed_at = now
            no_room = placed_at is None and now >= asked_at + self._patience.room_s
            self._look(slot, Event.NO_ROOM if no_room else Event.PLACED)
            if placed_at is not None and now > placed_at + START_SECONDS:
                raise TimeoutError(f"the actor does not listen after {START_SECONDS:.0f} s")
        return None

    def _look(self, slot: Slot, event: Event) -> None:
        """Say when an actor begins or ends to wait for resources."""
        with self.changed:
            rule = slot.life.hear(event)
            if rule is Rule.NOTHING:
                return
            needs = slot.version.starter.wants
            waits = f"waits for Ray, which has no room for it yet: it needs {needs}"
            slot.report = MemberReport("Starting", waits if rule is Rule.SAY_WAITS else None)
            self.changed.notify_all()
        if rule is Rule.SAY_WAITS:
            self._words.waits(slot, waits)
            slot.together.ready(slot.number)

    def _read(self, slot: Slot, link: MemberClient) -> None:
        hindered = Hindered(self.journal, slot)
        most_ms = slot.version.spec.max_poll_interval_ms
        slot.reading = link
        for report in link.reports():
            now = self._monotonic()
            with self.changed:
                slot.report = report
                slot.commits(report.committing)
                if report.state == "Running" and slot.running_since is None:
                    slot.running_since = now
                rule = slot.life.hear(reported(report.state))
                self.changed.notify_all()
            hindered.hear(report)
            if rule in (Rule.REMOVE, Rule.REMOVE_AND_CLOSE):
                self._failed(slot)
            if rule in (Rule.CLOSE, Rule.REMOVE_AND_CLOSE):
                return
            if rule is Rule.STOP and slot.standby is None:
                link.stop()
            if too_long := overrun(report, most_ms):
                self._words.kills(slot, too_long)
                return
