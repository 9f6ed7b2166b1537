"""A member's successor is made ready while the member still works, and takes its place only then.

Of a new version: its process is started, its handler made and set up, which may take minutes. The member before goes on
meanwhile. Then that finishes what it has in hand, commits and leaves; the successor joins under the same instance id,
and is given the same partitions. So these are without an owner for as long as that takes, and not for as long as a
process takes to start and a model to load.

Two members of one pool cannot both be in the group under one name, and under another one each would cost everybody a
rebalance. If Ray has no room for both, or the successor does not get ready beside it, the member before ends first, and
so do the next ones: what kept one successor from getting ready keeps the others, too.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

from actors import CoterieError
from actors.links.member import MemberAddress
from actors.members.member_link import MemberClient
from actors.members.pools.handler_member import READY
from actors.members.pools.slots import Asked, Slot
from actors.members.pools.watch.overrun import START_SECONDS, overrun
from actors.runtime.logs import about
from actors.runtime.process import error_text

log = logging.getLogger(__name__)

ROOM_SECONDS: Final = 10.0
"""A worker process that Ray starts first takes that long at most, most likely."""
_LOOK_SECONDS: Final = 0.2


class _AloneError(CoterieError):
    """A successor does not get ready while its member works; the text says why."""


class Standbys:
    """Makes successors ready. `changed` guards the slots; a slot has the successor in `standby`.

    `give_up_s` after it was begun a successor that is on a node and does not listen is no longer waited for. The same
    time, or that of a handler if it is more, is that of its set-up, whether it says anything meanwhile or not.
    """

    def __init__(
        self,
        changed: threading.Condition,
        monotonic: Callable[[], float],
        connect: Callable[[MemberAddress], MemberClient],
        *,
        room_s: float = ROOM_SECONDS,
        give_up_s: float = START_SECONDS,
    ) -> None:
        self._changed = changed
        self._monotonic = monotonic
        self._connect = connect
        self._room_s, self._give_up_s = room_s, give_up_s
        self._alone: set[str] = set()  # marks of versions of which one has not got ready beside its predecessor

    def begin(self, slot: Slot, ask: Callable[[Slot], Asked]) -> bool:
        """Have a successor made ready, and the member told to end then. Returns False if that is not possible.

        Called under the lock.
        """
        slot.drop_standby()
        version = slot.version
        if not version.spec.setup_overlap or version.mark in self._alone:
            return False
        try:
            slot.standby = standby = ask(slot)
        except Exception as error:  # it is tried again when the member has ended, and then the slot says so
            _say(slot, error)
            return False
        slot.renewed_at = math.inf
        threading.Thread(target=self._run, args=(slot, standby), name="coterie-standby", daemon=True).start()
        return True

    def _run(self, slot: Slot, standby: Asked) -> None:
        link, why = None, None
        try:
            link = self._ready(slot, standby)
        except Exception as error:  # as above
            why = error
        with self._changed:
            if slot.standby is not standby:  # its predecessor has ended, or another version is wanted
                if link is not None:
                    link.close()
                return
            standby.link = link
            if why is not None:
                self._alone.add(standby.version.mark)
                _say(slot, why)
            if link is None:
                slot.drop_standby()
            slot.renewed_at = self._monotonic()
            before = slot.link
        if before is not None:
            before.stop()

    def _ready(self, slot: Slot, standby: Asked) -> MemberClient | None:
        """The connection to a successor that is ready; None if it is not wanted any more.

        Raises whatever keeps it from getting ready.
        """
        where = self._address(slot, standby)
        if where is None:
            return None
        link = self._connect(where)
        try:
            standby.actor.serve(wait=True)
            if self._sets_up(slot, standby, link):
                return link
        except BaseException:  # Ctrl-C, too: a connection that nobody has would stay open
            link.close()
            raise
        link.close()
        return None

    def _sets_up(self, slot: Slot, standby: Asked, link: MemberClient) -> bool:
        """Wait until its handler is set up. Returns whether it is still wanted. Raises _AloneError if that fails."""
        most_ms = standby.spec.max_poll_interval_ms
        limit_s = max(self._give_up_s, most_ms / 1000)
        until = self._monotonic() + limit_s
        link.limit_silence(limit_s)
        for report in link.reports():
            left_s = until - self._monotonic()
            if slot.standby is not standby:
                return False
            if report.state == READY:
                link.limit_silence(None)
                return True
            if report.state == "Failed":
                raise _AloneError(f"its setup fails: {report.error}")
            if left_s <= 0 or overrun(report, most_ms):
                break
            link.limit_silence(left_s)
        raise _AloneError(f"it has ended, or its setup takes more than {limit_s:g} s")

    def _address(self, slot: Slot, standby: Asked) -> MemberAddress | None:
        begun = self._monotonic()
        while slot.standby is standby and not slot.retired:
            if (where := standby.actor.address(_LOOK_SECONDS)) is not None:
                return where
            waited_s, placed = self._monotonic() - begun, standby.actor.is_placed()
            if not placed and waited_s > self._room_s:
                raise _AloneError("Ray has no room for both")
            if waited_s > self._give_up_s:
                raise _AloneError(f"its process does not listen after {self._give_up_s:g} s")
        return None


def _say(slot: Slot, error: Exception) -> None:
    group_id = slot.version.spec.group_id
    text = "slot %d of group %s: its successor does not get ready beside its member, which ends first: %s"
    log.info(text, slot.number, group_id, error_text(error), extra=about(group=group_id))
