"""A supervisor's work: it follows the topic, and has its pool be what is wished there. No Ray here.

One thread does everything, `run`; others may ask `describe` and call `close`. All that a successor has to know stands
in the topic, so this may end at any point. If the brokers do not answer, the members go on as they are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from actors.client.errors import KafkaError
from actors.members.deployment import view
from actors.members.deployment.claim import Claim, Event, Here, Rule, Stage
from actors.members.deployment.description import PoolDescription
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import PoolRecord, Term
from actors.members.deployment.seals import UNSEALED, Seals
from actors.members.deployment.tending import Means, Tending, Trouble
from actors.members.deployment.versions import Versions
from actors.members.logs.gathering import Wanted
from actors.members.logs.journal import MemberLine
from actors.members.pools.plan import PoolError
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.process import error_text

__all__ = ["Here", "Steward"]  # supervisors that earlier builds have started look for both here

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_RETRY_MAX_SECONDS: Final = 10.0
_ROLLING_MS: Final = 100
_IDLE_MS: Final = 1_000


class Steward:
    """Looks after the pool `name`, whose members reach the brokers by `bootstrap_servers`.

    `superseded` is called when another supervisor has taken the pool over; it ends the process, and its members do.
    `seals` say which versions may be loaded; None where there are none, as supervisors of earlier builds say it, too:
    when Ray starts an actor again, it has the methods of its first process.
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
        self._seals = seals if seals is not None else UNSEALED
        self._superseded = superseded
        self._environment = environment
        self._claim = Claim(f"{here.actor_id}/{new_uuid(environment.chance).hex}", here)
        self._closing = threading.Event()
        self._trouble = Trouble()
        self._record: PoolRecord | None = None
        self._tending: Tending | None = None
        self._means = self._new_means()

    @property
    def over(self) -> bool:
        """True if nothing is left to do: the pool is gone, or an actor on another Ray has taken it over."""
        return self._claim.stage is Stage.OVER

    def _new_means(self) -> Means:
        versions = Versions(self.name, self._servers, self._seals)
        return Means(self.name, self._topic, self._seals, versions, self._trouble, self._environment)

    # --- for other threads ---

    def describe(self) -> PoolDescription | None:
        """The pool now; None if nothing is known of it yet."""
        record, tending = self._record, self._tending
        if record is None:
            return None
        return view.supervised(
            self.name,
            record,
            tending.members if tending is not None else None,
            tending.rollout if tending is not None else None,
            rolled_back=(tending.rolled_back if tending is not None else None) or record.rolled_back,
            from_version=tending.from_version if tending is not None else 0,
            running=tending.running if tending is not None else None,
            servers=self._servers,
            over=self.over,
            stuck=self._trouble.stuck,
            last_error=self._trouble.error,
            pid=self._claim.here.pid,
            node_id=self._claim.here.node_id,
        )

    def logs(self, wanted: Wanted) -> list[MemberLine]:
        """The lines that the members have printed and logged. Raises PoolError if `wanted` makes no sense."""
        tending = self._tending
        return tending.members.logs(wanted) if tending is not None else []

    def close(self, timeout_s: float) -> None:
        """Have the members finish and commit, and end. They keep their places in the group, for successors."""
        self._closing.set()
        if (tending := self._tending) is not None:
            tending.members.stop(timeout_s, leave=False)

    # --- the thread ---

    def run(self) -> None:
        """Work until there is no such pool any more, or `close`."""
        pause_s = 0.0
        while not self._ends:
            self._closing.wait(pause_s)
            pause_s = min(max(2 * pause_s, _RETRY_SECONDS), _RETRY_MAX_SECONDS)
            try:
                with self._topic.follow(self.name) as following:  # the handlers of others may be large
                    while not self._ends:
                        self._obey(following.book.pool(self.name))
                        pause_s, self._trouble.stuck = 0.0, False
                        settled = self._tending is not None and self._tending.rollout.over
                        following.poll(_IDLE_MS if settled else _ROLLING_MS)
            except (KafkaError, OSError, PoolError) as error:
                if not self._closing.is_set():
                    log.warning("pool %s: %s", self.name, error)
                    self._trouble.error, self._trouble.stuck = error_text(error), isinstance(error, PoolError)
            except Exception as error:  # nobody looks at this thread, and the members go on
                log.exception("pool %s", self.name)
                self._trouble.error = f"{type(error).__name__}: {error_text(error)}"

    @property
    def _ends(self) -> bool:
        return self._closing.is_set() or self.over

    def _obey(self, record: PoolRecord | None) -> None:
        """Do what the claim's table says. A rule that cannot be carried out raises, and is given again."""
        rule = self._claim.read(record)
        match rule:
            case Rule.LOOK_AGAIN:
                self._obey(record)
            case Rule.DISMISS:
                self._dismiss()
                self._claim.hear(Event.DISMISSED)
                self._obey(record)
            case Rule.FORGET:
                self._seals.ended(self.name, self._claim.ruled)
                self._claim.hear(Event.FORGOTTEN)
            case Rule.CLAIM if record is not None:
                incarnation = record.deployment.incarnation
                self._topic.write(self.name, Term(incarnation, self._claim.id))
                self._claim.written(incarnation)
            case Rule.SUPERSEDED:
                log.warning("pool %s: another supervisor has taken it over", self.name)
                self._superseded()
            case Rule.END:
                log.warning("pool %s: an actor on another Ray has taken it over", self.name)
            case Rule.RULE if record is not None:
                self._tend(record)

    def _tend(self, record: PoolRecord) -> None:
        self._record = record
        if self._tending is None:
            self._tending = Tending.begin(self._means, record)
        self._tending.obey(record)

    def _dismiss(self) -> None:
        """The pool was stopped: all members leave."""
        if self._tending is not None:
            self._tending.dismiss()
        self._tending = None
        self._means = self._new_means()
