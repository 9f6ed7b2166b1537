"""DeployedPool: a program's handle of a pool that outlives it. It wishes by records, and asks the supervisor."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from actors.client.config import SECURITY_NAMES
from actors.client.errors import ConfigurationError
from actors.members.deployment import supervisor_actor, view
from actors.members.deployment.book import Book
from actors.members.deployment.description import PoolDescription, PoolState
from actors.members.deployment.home import Home
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import Pause, PoolRecord, Restart, Size, keys_of
from actors.members.deployment.revival import revive
from actors.members.logs.gathering import Wanted
from actors.members.logs.journal import Cursor, MemberLine
from actors.members.pools.plan import PoolError, no_pool
from actors.runtime.environment import REAL, new_uuid

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_SETTLED: Final = (PoolState.RUNNING, PoolState.PAUSED)


class DeployedPool:
    """A pool by its name. `ConsumerPool.deploy` and `ConsumerPool.attach` return it; it holds nothing open.

    A wish stands in the topic `__coterie_pools` when a method returns; the supervisor carries it out then, at once or
    when Ray has restarted it. `scale`, `pause`, `resume` and `restart` need no Ray. `describe` asks the supervisor if
    this process is connected to the Ray on which it runs; otherwise it says what the topic says.

    Methods raise PoolError if there is no such pool (any more), and KafkaError if the brokers do not answer.
    """

    def __init__(self, name: str, bootstrap_servers: str, **security: Any) -> None:
        """`security` are settings of a client that are about logins and TLS."""
        for each in security:
            if each not in SECURITY_NAMES:
                raise ConfigurationError(f"{each!r} is no setting of a client's logins and TLS")
        self.name = name
        self.bootstrap_servers = bootstrap_servers
        self._topic = PoolsTopic(bootstrap_servers, **security)

    # --- all pools ---

    @staticmethod
    def deployed(bootstrap_servers: str, **security: Any) -> list[PoolDescription]:
        """All pools of this Kafka cluster, by name. Their supervisors are asked as far as they are on this Ray.

        One whose records cannot be read is left out, and a line of the log says so.
        """
        topic = PoolsTopic(bootstrap_servers, **security)
        book = topic.read()
        names = book.names()
        cluster_id = topic.cluster_id() if names else ""
        found = []
        for name in names:
            try:
                record = book.pool(name)
                assert record is not None
                found.append(supervisor_actor.describe(cluster_id, name) or view.unsupervised(name, record))
            except (PoolError, ConfigurationError) as error:
                log.warning("pool %s: %s", name, error)
        return found

    @staticmethod
    def revive(bootstrap_servers: str, *names: str, **security: Any) -> list[str]:
        """Start supervisors on this Ray for pools that have none here: of these names, or of all. Returns which.

        A pool that runs on another Ray moves here: its supervisor there ends, and its members do.
        """
        return revive(bootstrap_servers, names, at_home=False, **security)

    # --- this one ---

    @cached_property
    def _cluster_id(self) -> str:
        return self._topic.cluster_id()

    def _record(self) -> PoolRecord:
        record = self._topic.read().pool(self.name)
        if record is None:
            raise no_pool(self.name)
        return record

    def describe(self) -> PoolDescription:
        """The pool now."""
        found = supervisor_actor.describe(self._cluster_id, self.name)
        if found is not None and found.state is not PoolState.STOPPED:
            return found
        return view.unsupervised(self.name, self._record())

    def handled(self) -> int:
        """The number of records that members are done with since the supervisor began, as in ConsumerPool.handled."""
        return self.describe().handled

    def logs(
        self, slot: int | None = None, *, tail: int = 100, since_ms: int = 0, after: Cursor | None = None
    ) -> list[MemberLine]:
        """The lines that the members have printed and logged, as in ConsumerPool.logs. Their supervisor is asked.

        When it ends itself, it forgets the lines of members that have ended. Raises PoolError if this process is not
        connected to its Ray, or it does not answer.
        """
        wanted = Wanted(slot, tail, since_ms, after or {})
        if problem := wanted.problem():
            raise PoolError(problem)
        self._record()
        return supervisor_actor.logs(self._cluster_id, self.name, wanted)

    def scale(self, size: int) -> None:
        """Change the number of members. PoolError for a pool that follows its load: deploy it with other bounds."""
        record = self._record()
        if record.wanted.autoscale is not None:
            raise PoolError("the size of this pool follows its load: deploy it with other bounds of `autoscale`")
        if size < 1:
            raise PoolError(f"size must be at least 1, got {size}; `pause` has all members leave")
        self._topic.write(self.name, Size(record.deployment.incarnation, size))

    def pause(self) -> None:
        """Have all members finish what is in hand, commit and leave. The group keeps its offsets, the pool its size."""
        self._topic.write(self.name, Pause(self._record().deployment.incarnation, True))

    def resume(self) -> None:
        """Have the members of a paused pool start again."""
        self._topic.write(self.name, Pause(self._record().deployment.incarnation, False))

    def restart(self) -> None:
        """Restart the members one at a time, with the version that they have; those that have failed as well."""
        incarnation = self._record().deployment.incarnation
        self._topic.write(self.name, Restart(incarnation, new_uuid(REAL.chance).hex))

    def stop(self, timeout_s: float = 60.0) -> None:
        """Have all members finish, commit and leave, and forget the pool. The group keeps its offsets.

        Returns when that is done, or at once if this process is not connected to the supervisor's Ray. Raises PoolError
        if it is not done within `timeout_s`; it is done later then.
        """
        book = self._topic.read()
        if self.name not in book.names():  # also one that cannot be read can be stopped
            raise PoolError(f"there is no pool called {self.name!r}")
        self._topic.remove(keys_of(self.name))
        self._tell_home(book)
        deadline = REAL.clock.monotonic() + timeout_s
        while supervisor_actor.connected() and supervisor_actor.is_there(self._cluster_id, self.name):
            if REAL.clock.monotonic() > deadline:
                raise PoolError(f"the members of pool {self.name!r} have not ended within {timeout_s:g} s")
            threading.Event().wait(_LOOK_SECONDS)

    def _tell_home(self, book: Book) -> None:
        """Have nothing run again of a pool that was stopped, also if it has no supervisor that would say so."""
        with contextlib.suppress(PoolError, OSError):
            home = Home(self._cluster_id)
            if supervisor_actor.connected() and home.is_here():
                home.ended(self.name, _incarnation(self.name, book))

    def wait(self, until: Callable[[PoolDescription], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Block until `until(describe())` is true, or `timeout_s` has passed (returns False).

        Without `until`: until it is as wished, which is Running or Paused with nothing left to roll. Raises PoolError
        if the pool has failed and, without `until`, if its last version has been rolled back.
        """
        deadline = None if timeout_s is None else REAL.clock.monotonic() + timeout_s
        wished = 0 if until is not None else self._record().deployment.version  # its supervisor may not know it yet
        while True:
            found = self.describe()
            if until(found) if until is not None else found.version >= wished and _as_wished(found):
                return True
            if found.state is PoolState.FAILED:
                raise PoolError(f"pool {self.name!r} has failed: {found.last_error}")
            if deadline is not None and REAL.clock.monotonic() > deadline:
                return False
            threading.Event().wait(_LOOK_SECONDS)


def _incarnation(name: str, book: Book) -> str:
    try:
        record = book.pool(name)
    except PoolError:
        record = None
    return record.deployment.incarnation if record is not None else ""


def attach(name: str, bootstrap_servers: str, **security: Any) -> DeployedPool:
    """See ConsumerPool.attach."""
    pool = DeployedPool(name, bootstrap_servers, **security)
    pool.describe()  # raises if there is none
    return pool


def _as_wished(found: PoolDescription) -> bool:
    rollout = found.rollout
    if rollout is not None and rollout.rolled_back is not None:
        raise PoolError(f"version {rollout.to_version} of pool {found.name!r} was rolled back: {rollout.rolled_back}")
    if found.state is PoolState.PAUSED:
        return not found.members
    every = all(member.state == "Running" for member in found.members)
    sized = found.autoscale is not None or len(found.members) == found.size
    return found.state is PoolState.RUNNING and every and sized and (rollout is None or rollout.over)
