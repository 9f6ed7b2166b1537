"""A pool's words on a member that lives and gets no records: one when that begins, and one when it is over."""

from __future__ import annotations

import logging

from actors.links.member import MemberReport
from actors.members.logs.journal import Journal
from actors.members.pools.slots import Slot
from actors.runtime.logs import about

log = logging.getLogger(__name__)


class Hindered:
    """Follows the reports of one member. While it runs, their `error` is what keeps records from it."""

    def __init__(self, journal: Journal, slot: Slot) -> None:
        self._journal = journal
        self._slot = slot
        self._now = False

    def hear(self, report: MemberReport) -> None:
        """Take a report, and say what has changed."""
        error = report.error if report.state == "Running" else None
        if (error is not None) == self._now:
            return
        self._now = error is not None
        if error is not None:
            self._say(logging.WARNING, f"gets no records: {error}")
        elif report.state == "Running":
            self._say(logging.INFO, "can get records again")

    def _say(self, level: int, text: str) -> None:
        slot, group_id = self._slot, self._slot.version.spec.group_id
        log.log(level, "slot %d of group %s %s", slot.number, group_id, text, extra=about(group=group_id, pid=slot.pid))
        self._journal.note(slot.number, f"the member with pid {slot.pid} {text}")
