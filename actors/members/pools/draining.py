"""The thread that has members of a pool go elsewhere before Ray takes their node away.

Such a member finishes what is in hand, commits and ends; its successor is the same static member, so the group notices
nothing, and Ray places it on a node that stays. If a handler takes longer than the node has, its record comes again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from actors.members.draining import DRAIN_LOOK_SECONDS
from actors.members.logs.journal import Journal
from actors.members.pools.slots import Slot, Version
from actors.runtime.logs import about
from actors.runtime.ray_nodes import draining_nodes, has_others

log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 10.0


class Members(Protocol):
    """A pool's members; `Supervision`."""

    journal: Journal

    def all(self) -> list[Slot]: ...
    def renew(self, slot: Slot, version: Version, *, beside: bool) -> None: ...


class Draining:
    """Looks which nodes are drained, and has each member that is there go on elsewhere, once.

    While there is no other node, members stay where they are.
    """

    def __init__(
        self,
        members: Members,
        *,
        draining: Callable[[], Mapping[str, int]] = draining_nodes,
        has_others: Callable[[Collection[str]], bool] = has_others,
        interval_s: float = DRAIN_LOOK_SECONDS,
    ) -> None:
        self._members = members
        self._draining = draining
        self._has_others = has_others
        self._interval_s = interval_s
        self._moved: set[tuple[int, str]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coterie-draining", daemon=True)

    def start(self) -> None:
        """Have the thread run."""
        self._thread.start()

    def end(self) -> None:
        """Move nobody any more."""
        self._ended.set()

    def join(self) -> None:
        """Wait until the thread has ended, for ten seconds at most."""
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self.look()
            except Exception:  # nobody looks at this thread, and the next look may do
                log.exception("could not look which nodes are drained")

    def look(self) -> None:
        """Look once."""
        leaving = self._draining()
        self._moved = {(slot, node) for slot, node in self._moved if node in leaving}
        there = [slot for slot in self._members.all() if slot.node_id in leaving and self._can_go(slot)]
        if not there:
            return
        if not self._has_others(leaving):
            for slot in there:
                text = f"its node {slot.node_id[:12]} is drained, and there is no other"
                self._members.journal.note(slot.number, text)
            return
        for slot in there:
            self._move(slot)

    def _can_go(self, slot: Slot) -> bool:
        wanted = not (slot.retired or slot.renewing or slot.failed)
        return wanted and slot.link is not None and (slot.number, slot.node_id) not in self._moved

    def _move(self, slot: Slot) -> None:
        self._moved.add((slot.number, slot.node_id))
        text = f"pid {slot.pid} leaves node {slot.node_id[:12]}, which is drained"
        self._members.journal.note(slot.number, text)
        group = slot.version.spec.group_id
        log.info("slot %d of group %s: %s", slot.number, group, text, extra=about(group=group, pid=slot.pid))
        self._members.renew(slot, slot.version, beside=False)  # its node may be gone before a successor is set up
