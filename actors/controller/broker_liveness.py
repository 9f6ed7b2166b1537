"""The brokers that are wanted: which are missing, silent or lost, and what follows from that.

A broker that is lost leads nothing from then on, and is started again once its loss has committed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from actors.controller.broker_changes import BrokerChanges
from actors.controller.deaths import Deaths
from actors.controller.metadata.log import Log
from actors.controller.replacing import Replacing
from actors.controller.sessions import Launcher, Session
from actors.controller.starts import Starts
from actors.links.control import Stop
from actors.runtime.logs import about
from placement.metadata import NO_LEADER

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 0.5  # before a start that failed is tried again
_COMES_SECONDS: Final = 0.5  # after others have, a broker that lives comes to a new controller, too
_READ_SECONDS: Final = 0.2  # after such a word, so that what came before it from another broker is read, too
_WORD_SECONDS: Final = 2.5  # heartbeats come more often, and say the same or something else


class BrokerLiveness:
    """Everything runs on the controller's loop. `brokers` are those that are registered; here they are taken out.

    A broker that has not registered within `lease_s` of `began` is lost. `over` says that this is the controller no
    more; `released` is called when answers no longer have to wait for a broker.
    """

    def __init__(
        self,
        metadata_log: Log,
        changes: BrokerChanges,
        launcher: Launcher,
        starts: Starts,
        replacing: Replacing,
        brokers: dict[int, Session],
        loop: asyncio.AbstractEventLoop,
        lease_s: float,
        over: Callable[[], bool],
        released: Callable[[], None],
    ) -> None:
        self._log = metadata_log
        self._changes = changes
        self._launcher = launcher
        self._starts = starts
        self._replacing = replacing
        self._brokers = brokers
        self._loop = loop
        self.lease_s = lease_s
        self._over = over
        self._released = released
        self._deaths = Deaths(launcher, lease_s)
        self.began = loop.time()
        self._last_came = -math.inf
        self.is_judging = False
        """True from a word that a broker has hung up until it is decided whether any has died."""

    @property
    def brokers(self) -> Mapping[int, Session]:
        """The brokers that are registered, by their ids."""
        return self._brokers

    def wait_anew(self, now: float) -> None:
        """This controller stood still and heard nothing: all brokers have a lease from now on."""
        self.began = now
        for session in self._brokers.values():
            session.heard_at(now)
        self._deaths.wait_anew()
        self._replacing.wait_anew()

    def is_missing(self, broker_id: int) -> bool:
        """True if a broker is wanted and not here; none is while the controller stops."""
        return not self._over() and broker_id in self._starts.wanted and broker_id not in self._brokers

    def settled(self) -> bool:
        """True if all brokers have registered with this controller, or had a lease for it.

        Those count that the metadata has: a controller that takes over knows of them before it is told what to expect.
        """
        awaited = self._starts.wanted | self._log.decided.brokers.keys()
        return awaited <= self._brokers.keys() or self._loop.time() - self.began > self.lease_s

    def came(self, session: Session) -> None:
        """A broker registers."""
        self._brokers[session.broker_id] = session
        self._last_came = self._loop.time()
        self._deaths.settled(session.broker_id)
        self._replacing.heard(session.broker_id, self._loop.time())
        self._starts.starting.discard(session.broker_id)

    def start_failed(self, broker_id: int, reason: str) -> None:
        """A broker's process ended before it registered, or could not begin: try again."""
        self._starts.failed(broker_id, reason)
        session = self._brokers.get(broker_id)
        if session is not None and session.ended.is_set():
            del self._brokers[broker_id]  # its hello was read only after it had ended
            self._changes.lost(broker_id)
        if self.is_missing(broker_id):
            self._starts.again(broker_id, at_least_s=_RETRY_SECONDS)

    def removed(self, broker_id: int) -> None:
        """A broker was unregistered: its process closes its logs and ends, and is not started again."""
        self._starts.want_no_more(broker_id)
        session = self._brokers.get(broker_id)
        if session is not None:
            session.protocol.send(Stop())
        else:
            self._launcher.kill_broker(broker_id)

    def hung_up(self, session: Session) -> None:
        """The connection of a registered broker has ended."""
        if self._over():  # the next controller finds out what became of the broker
            del self._brokers[session.broker_id]
        elif session.answered:
            self._session_lost(session)
        else:
            # It may have waited too long for us, and comes again. If not, its process or its silence will show it.
            log.warning(
                "broker %d (pid %d) hung up before its hello was answered",
                session.broker_id,
                session.pid,
                extra=about(broker=session.broker_id, pid=session.pid),
            )

    def _session_lost(self, session: Session) -> None:
        log.warning(
            "broker %d (pid %d) is gone",
            session.broker_id,
            session.pid,
            extra=about(broker=session.broker_id, pid=session.pid),
        )
        del self._brokers[session.broker_id]
        self._replacing.heard(session.broker_id, session.last_heard)
        self._broker_lost(session.broker_id)

    def _broker_lost(self, broker_id: int) -> None:
        lost = self._changes.lost(broker_id)
        if lost is None and self._over():  # the log has ended with it, and the broker may be with the next controller
            return
        self._released()
        if broker_id in self._log.decided.removed:
            self._launcher.kill_broker(broker_id)
        if broker_id not in self._starts.wanted:
            return
        if lost is None:
            self._starts.again(broker_id)
        else:
            self._starts.starting.add(broker_id)  # as soon as its loss has committed
            lost.then(lambda: self._start_lost(broker_id))

    def _start_lost(self, broker_id: int) -> None:
        if broker_id not in self._brokers:
            self._starts.again(broker_id)

    def look(self, now: float, recovering: Callable[[], Collection[int]]) -> None:
        """Give up brokers that are silent, and those that have not come, but for those `recovering`, which live."""
        for session in list(self._brokers.values()):
            if self._deaths.is_dead(session, now - session.last_heard):
                self._give_up(session, now)
        if self._over():  # it may be, by now: the first ones led to it
            return
        for broker_id in sorted((self._alive() & self._starts.starting) - self._brokers.keys()):
            self._changes.lost(broker_id)  # when it was lost, the metadata log could not be written
        for broker_id in self._absent(recovering):
            if self._deaths.stays_away(broker_id, self._log.decided.brokers.get(broker_id), now - self.began):
                log.warning("broker %d has not registered within a lease", broker_id, extra=about(broker=broker_id))
                self._absent_lost(broker_id)

    def _absent(self, recovering: Callable[[], Collection[int]]) -> list[int]:
        """The brokers that run, or should, and have not come to this controller."""
        accounted_for = self._brokers.keys() | self._starts.starting | set(recovering())
        return sorted((self._starts.wanted | self._alive()) - accounted_for)

    def _alive(self) -> set[int]:
        return {info.id for info in self._log.decided.alive()}

    def _absent_lost(self, broker_id: int) -> None:
        self._deaths.settled(broker_id)
        self._broker_lost(broker_id)

    def unreachable(self, recovering: Callable[[], Collection[int]]) -> None:
        """A broker says that others have hung up on it. Some of them may have died with the controller before this one.

        That one would have heard them hang up. This one has only the word of the others.
        """
        if not self.is_judging:
            self._judge_later(recovering, _READ_SECONDS)

    def _judge_later(self, recovering: Callable[[], Collection[int]], wait_s: float) -> None:
        self.is_judging = True
        self._loop.call_later(wait_s, self._judge, recovering, self._loop.time() + wait_s)

    def _judge(self, recovering: Callable[[], Collection[int]], due: float) -> None:
        now = self._loop.time()
        if now > due + _COMES_SECONDS / 2:
            wait = _COMES_SECONDS  # we stood still, and have not read who has come meanwhile
        else:
            wait = max(self.began, self._last_came) + _COMES_SECONDS - now
        if wait > 0:
            self._judge_later(recovering, wait)
            return
        self.is_judging = False
        for broker_id in self._absent(recovering):
            if not self._over() and self._has_left_all(broker_id, now):
                log.warning(
                    "broker %d has hung up on all others, and has not come", broker_id, extra=about(broker=broker_id)
                )
                self._absent_lost(broker_id)

    def _has_left_all(self, broker_id: int, now: float) -> bool:
        """True if all brokers that were connected to this one, which is said to run, say that it has hung up.

        Those that have hung up as well need not say so. One that is about to stop hangs up before it has ended.
        """
        known = self._log.decided.brokers.get(broker_id)
        if known is None or not known.alive or known.leaving:
            return False
        words = [set(each.unreachable) for each in self._brokers.values() if now - each.last_heard < _WORD_SECONDS]
        gone = set[int]().union(*words)
        partitions = (each for topic in self._log.decided.topics.values() for each in topic.partitions)
        pushing = {each.leader for each in partitions if broker_id in each.replicas} - {broker_id, NO_LEADER}
        witnesses = pushing - (gone - self._brokers.keys())
        if not witnesses or not all(self._says(each, broker_id, now) for each in witnesses):
            return False
        return self._launcher.look_at(broker_id, known.pid, known.process_started) is None

    def _says(self, witness: int, broker_id: int, now: float) -> bool:
        """True if a broker is here, and has said lately that another one has hung up."""
        session = self._brokers.get(witness)
        return session is not None and broker_id in session.unreachable and now - session.last_heard < _WORD_SECONDS

    def _give_up(self, session: Session, now: float) -> None:
        log.warning(
            "broker %d silent for %.1f s: killed",
            session.broker_id,
            now - session.last_heard,
            extra=about(broker=session.broker_id, pid=session.pid),
        )
        if session.ended.is_set():
            self._session_lost(session)
        else:
            session.protocol.close()
