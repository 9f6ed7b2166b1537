"""The thread that watches over a pool's members: it renews their leases, and sees to those that are silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from actors.members.logs.journal import Journal
from actors.members.member_link import MemberClient
from actors.members.pools.slots import Slot
from actors.members.pools.watch.silence import Limits, Silence
from actors.members.pools.watch.stand_in import Membership

log = logging.getLogger(__name__)

MACHINE_SECONDS: Final = 30.0
"""The time that a machine may acknowledge nothing, and that a killed process may take to end."""
_INTERVAL_SECONDS: Final = 0.2
_PASSED_MAX: Final = 1.0
_STOP_SECONDS: Final = 10.0


class Members(Protocol):
    """A pool's members; `Supervision`."""

    journal: Journal

    def all(self) -> list[Slot]: ...
    def end_now(self, slot: Slot, why: str) -> None: ...


class Sender(Protocol):
    """Sends heartbeats; `Heartbeats`."""

    def send(self, member: Membership) -> None: ...
    def close(self) -> None: ...


class _Watched:
    """The process that has a slot now, by its connection."""

    def __init__(self, link: MemberClient, slot: Slot) -> None:
        self.link = link
        self.silence = Silence(Limits.of(slot.version.spec), slot.report)
        self.killed_s: float | None = None


class Watching:
    """Looks at all members several times a second, until `end`. With `leased` they end when this process does."""

    def __init__(
        self,
        members: Members,
        heartbeats: Sender,
        monotonic: Callable[[], float],
        *,
        leased: bool = False,
        interval_s: float = _INTERVAL_SECONDS,
    ) -> None:
        self._members = members
        self._heartbeats = heartbeats
        self._monotonic = monotonic
        self._leased = leased
        self._interval_s = interval_s
        self._watched: dict[int, _Watched] = {}
        self._looked_s = monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coterie-watching", daemon=True)

    def start(self) -> None:
        """Have the thread run."""
        self._thread.start()

    def end(self) -> None:
        """Watch no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self._heartbeats.close()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self.look()
            except Exception:  # nobody looks at this thread, and the next look may do
                log.exception("could not look after the members of a pool")

    def look(self) -> None:
        """Look once."""
        now = self._monotonic()
        # When this process itself did not run, its members' reports wait unread: that is not their silence.
        passed_ms = min(now - self._looked_s, _PASSED_MAX) * 1000
        self._looked_s = now
        before, self._watched = self._watched, {}
        for slot in self._members.all():
            if (link := slot.reading) is not None:
                known = before.get(slot.number)
                watched = known if known is not None and known.link is link else _Watched(link, slot)
                self._watched[slot.number] = watched
                self._see_to(slot, watched, now, passed_ms)

    def _see_to(self, slot: Slot, watched: _Watched, now: float, passed_ms: float) -> None:
        if self._leased and slot.lease.look(now, watched.link.unanswered_s()):
            watched.link.renew_lease()
        silence = watched.silence
        silence.looked(slot.report, passed_ms)
        if watched.link.unanswered_s() > MACHINE_SECONDS:
            slot.lost = f"is lost: its machine has not answered for {MACHINE_SECONDS:.0f} s"
            watched.link.hang_up()
        elif watched.killed_s is not None:
            if now - watched.killed_s > MACHINE_SECONDS:
                watched.link.hang_up()  # it does not end: its place is given away all the same
        elif too_long := silence.too_long:
            watched.killed_s = now
            why = f"it has said nothing and {too_long}: it keeps the interpreter's lock, or its process stands still"
            self._members.end_now(slot, why)
        elif silence.take_heartbeat(watched.link.unanswered_s()):
            self._beat_for(slot, silence)

    def _beat_for(self, slot: Slot, silence: Silence) -> None:
        report = slot.report
        self._heartbeats.send(Membership(slot.instance_id, report.member_id, report.generation_id))
        if silence.lasts:
            text = (
                f"pid {slot.pid} has said nothing for some seconds: its handler keeps the interpreter's lock, or it "
                "stands still. The pool sends its heartbeats, for as long as "
                f"max_poll_interval_ms={slot.version.spec.max_poll_interval_ms} allows"
            )
            self._members.journal.note(slot.number, text)
