"""A pool's words on its slots: on members that die, are killed, cannot be started or wait for room."""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.members.logs.journal import Journal
from actors.members.pools.slots import Slot
from actors.runtime.logs import about

log = logging.getLogger(__name__)


class SlotWords:
    """Says it in the log and in the pool's journal. Nothing is said of what ends because this process leaves its Ray.

    `left` is why this process has left its Ray; "" if it has not.
    """

    def __init__(self, journal: Journal, left: Callable[[], str]) -> None:
        self._journal = journal
        self._left = left

    def kills(self, slot: Slot, why: str) -> None:
        """Say why the pool kills this slot's process, or it would seem to have died by itself."""
        slot.killed = why
        self._tell(slot, f"is killed by its pool: {why}")

    def died(self, slot: Slot) -> None:
        """Its process has ended, and nobody wanted that."""
        if not slot.killed and not self._left():
            self._tell(slot, slot.lost or "has died")

    def _tell(self, slot: Slot, what: str) -> None:
        text, of_slot = f"the member with pid {slot.pid} {what}", about(group=slot.version.spec.group_id, pid=slot.pid)
        log.warning("slot %d of group %s: %s", slot.number, slot.version.spec.group_id, text, extra=of_slot)
        self._journal.note(slot.number, text)

    def not_started(self, slot: Slot, reason: str, times: int) -> None:
        """No actor could be started for it, so many times in a row."""
        log.log(
            logging.WARNING if times == 1 else logging.DEBUG,  # the next starts most likely fail of the same
            "slot %d of group %s could not be started: %s",
            slot.number,
            slot.version.spec.group_id,
            reason,
            extra=about(group=slot.version.spec.group_id),
        )
        self._journal.note(slot.number, f"could not be started: {reason}")

    def waits(self, slot: Slot, reason: str | None) -> None:
        """Ray has no room for its actor."""
        of_group = about(group=slot.version.spec.group_id)
        log.info("slot %d of group %s %s", slot.number, slot.version.spec.group_id, reason, extra=of_group)
