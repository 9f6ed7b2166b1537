"""The members of one pool together: how many there are, why that has changed, and how they leave the group.

`ConsumerPool` has them for a program, and a supervisor for a pool that outlives its program.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from actors.client import Admin
from actors.client.config import security_settings
from actors.client.errors import KafkaError
from actors.links.member_deaths import Note
from actors.members.autoscale import Autoscale
from actors.members.logs.gathering import Source, Wanted, gather
from actors.members.logs.journal import Journal, MemberLine
from actors.members.pools.draining import Draining
from actors.members.pools.figures import Clusters, FigureReports
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.load import GroupLoad, PoolLoad
from actors.members.pools.plan import PoolError
from actors.members.pools.scaling import Scaling
from actors.members.pools.slots import Version
from actors.members.pools.status import SizeChange
from actors.members.pools.supervision import PATIENCE, Patience, Supervision
from actors.members.pools.watch.heartbeats import Heartbeats
from actors.members.pools.watch.watching import Watching
from actors.runtime import ray_session
from actors.runtime.environment import Environment
from actors.runtime.logs import about

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 30.0
"""The time that leaving members may take for what is in hand."""
_CHANGES_MAX: Final = 100
_REACH_MS: Final = 2_000
_REMOVE_MS: Final = 10_000
# The reasons that a group is told for members that go: the same each time, since metrics count rebalances by them.
_SHRANK: Final = "its pool shrank"
_NO_MEMBERS: Final = "its pool has no members now"


class PoolMembers:
    """A pool's members, none at first. `slots` supervises each of them.

    With `leased`, they end at once when this process does: for one that has successors. `notes` are of records that
    were in hand when members of an earlier supervisor died.
    """

    def __init__(
        self,
        version: Version,
        instance_prefix: str,
        environment: Environment,
        *,
        leased: bool = False,
        notes: Iterable[Note] = (),
        patience: Patience = PATIENCE,
    ) -> None:
        self._monotonic = environment.clock.monotonic
        self._wall_ms = environment.clock.wall_ms
        self._ray = ray_session.session()
        self.slots = Supervision(
            version,
            self.remove_members,
            instance_prefix=instance_prefix,
            monotonic=self._monotonic,
            journal=Journal(self._wall_ms),
            notes=notes,
            left=lambda: self._ray.over,
            patience=patience,
        )
        self._instance_prefix = instance_prefix
        self._size_changes: deque[SizeChange] = deque(maxlen=_CHANGES_MAX)
        self._resizing = threading.Lock()
        self._scaling: Scaling | None = None
        self._stopping = False
        self._draining = Draining(self.slots)
        self._draining.start()
        self._watching = Watching(
            self.slots, Heartbeats(lambda: self._spec, environment), self._monotonic, leased=leased
        )
        self._watching.start()
        self._figures = FigureReports(
            instance_prefix, self._spec.group_id, self.slots.figures, Clusters(self._monotonic, self._ray).report
        )
        self._figures.start()

    @property
    def _spec(self) -> MemberSpec:
        return self.slots.version.spec

    @property
    def size_changes(self) -> list[SizeChange]:
        """The last hundred changes of size, the oldest first."""
        with self.slots.changed:
            return list(self._size_changes)

    @property
    def follows_load(self) -> bool:
        """True if its size follows its load."""
        return self._scaling is not None

    def ray_away(self) -> str:
        """The reason why no member can start now, and the remedy; "" if one can, or if all members run without Ray."""
        slots = self.slots.all()
        return "" if slots and all(slot.link is not None for slot in slots) else self._ray.away

    def change_size(
        self,
        size: int,
        reason: str,
        drain_timeout_s: float = DRAIN_SECONDS,
        version_of: Callable[[int], Version] | None = None,
    ) -> None:
        """Returns when surplus members have gone; new ones are starting then. Raises PoolError if it was stopped."""
        with self._resizing:
            with self.slots.changed:
                if self._stopping:
                    raise PoolError("the pool has been stopped")
                before = len(self.slots)
                surplus = self.slots.surplus(size)
                new = self.slots.add(size - before, version_of)
                if size != before:
                    self._size_changes.append(SizeChange(self._wall_ms(), before, size, reason))
            if size != before:
                group_id = self._spec.group_id
                text, of_group = "group %s: from %d to %d members: %s", about(group=group_id)
                log.info(text, group_id, before, size, reason, extra=of_group)
            self.slots.begin(new)
            why = _SHRANK if size else _NO_MEMBERS
            self.slots.retire(surplus, drain_timeout_s, why=why, limit="drain_timeout_s")

    def follow_load(self, policy: Autoscale) -> None:
        """Have the size follow the load from now on."""
        load = PoolLoad(self.slots, GroupLoad(self._spec), self._monotonic)
        self._scaling = Scaling(policy, load, lambda size, why: self.change_size(size, why, policy.drain_timeout_s))
        self._scaling.start()

    def keep_size(self) -> None:
        """Have the size follow the load no longer. A change that is under way is waited for, for some seconds."""
        scaling, self._scaling = self._scaling, None
        if scaling is not None:
            scaling.end()
            scaling.join()

    def stop(self, timeout_s: float = DRAIN_SECONDS, *, leave: bool = True) -> None:
        """Have every member finish what is in hand, commit and leave the group. Stopping twice is harmless."""
        self._draining.end()
        self._figures.end()
        if self._scaling is not None:
            self._scaling.end()
        with self.slots.changed:
            self._stopping = True
            slots = self.slots.all()
        self.slots.retire(slots, timeout_s, why="its pool has stopped", leave=leave)
        self._watching.end()
        if self._scaling is not None:
            self._scaling.join()
        self._draining.join()

    def logs(self, wanted: Wanted) -> list[MemberLine]:
        """The lines that its members have printed and logged. Raises PoolError if `wanted` makes no sense."""
        if problem := wanted.problem():
            raise PoolError(problem)
        with self.slots.changed:
            sources = [
                Source(slot.number, slot.pid, slot.link, slot.started_version)
                for slot in self.slots.all()
                if slot.link is not None
            ]
        return gather(sources, self.slots.journal, wanted)

    def remove_strangers(self, size: int) -> None:
        """Remove members of an earlier process whose places are not among the first `size`: nobody takes them again.

        It works, too, if not all topics of the group may be described.
        """
        ours = re.compile(rf"{re.escape(self._instance_prefix)}-(\d+)")
        with self._admin() as admin:
            (group,) = admin.describe_consumer_groups([self._spec.group_id], show_hidden=True)
        present = {member.group_instance_id or "" for member in group.members}
        named = [found for each in present if (found := ours.fullmatch(each)) is not None]
        if strangers := [found[0] for found in named if int(found[1]) >= size]:
            self.remove_members(strangers, "its place in the pool is gone")

    def _admin(self) -> Admin:
        return Admin(bootstrap_servers=self._spec.bootstrap_servers, **security_settings(self._spec.options))

    def remove_members(self, instance_ids: list[str], why: str) -> None:
        """Remove the members, and say why.

        Static ones do not leave by themselves: their partitions would wait for the session timeout. Nobody waits long
        for brokers that do not answer.
        """
        try:
            with self._admin() as admin:
                admin.describe_cluster(timeout_ms=_REACH_MS)
                admin.remove_members_from_consumer_group(
                    self._spec.group_id, group_instance_ids=instance_ids, reason=why, timeout_ms=_REMOVE_MS
                )
        except (KafkaError, OSError) as error:
            log.warning(
                "group %s: members of a stopped pool stay until their session ends: %s",
                self._spec.group_id,
                error,
                extra=about(group=self._spec.group_id),
            )
