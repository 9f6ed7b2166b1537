"""Brokers whose data is gone for good: when one may be replaced, and how, by a person's word or by itself.

A broker that nobody can reach may serve on alone for `coterie.broker.isolated.ms`: no replacement begins before that,
unless a person says that its node is off. Times count from the last sign of life, and anew for each controller.

One sole copy keeps a broker from being replaced by itself, whatever else it has. The replacement gives its partitions
another directory to wait for, and the former one is never taken back: so it would lose what is on a disk that may only
have been without power. That is a person's word.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from actors import CoterieError
from actors.controller.broker_changes import BrokerChanges
from actors.controller.decisions.pairs import Key
from actors.controller.decisions.replacement import copies_away, held_by, sole_copies
from actors.controller.metadata.log import Log
from actors.controller.sessions import Launcher
from actors.controller.starts import Starts
from actors.links.replacements import Outlook
from actors.links.status import Absence
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import DIRECTORIES

log = logging.getLogger(__name__)

_A_LOOK_TICKS: Final = 5
"""The ticks for which a node that was gone is still said to be, if no look finds it so again."""


class CannotReplaceError(CoterieError):
    """A broker is not replaced; the text says why, and what to do."""


class Replacing:
    """Replaces brokers. `away` are those that are wanted and give no sign of life; `new_id` makes directories' ids."""

    def __init__(
        self,
        metadata_log: Log,
        changes: BrokerChanges,
        launcher: Launcher,
        starts: Starts,
        loop: asyncio.AbstractEventLoop,
        config: Callable[[], BrokerConfig],
        away: Callable[[], Collection[int]],
        new_id: Callable[[], str],
    ) -> None:
        self._log = metadata_log
        self._changes = changes
        self._launcher = launcher
        self._starts = starts
        self._loop = loop
        self._config = config
        self._away = away
        self._new_id = new_id
        self._begun = loop.time()
        self._heard: dict[int, float] = {}
        self._said: dict[int, str] = {}  # the reason last given why one is not replaced by itself
        self._homeless = Counter[int]()  # the ticks for which it still counts that a look found no node

    @property
    def _metadata(self) -> ClusterMetadata:
        return self._log.decided

    def heard(self, broker_id: int, at: float) -> None:
        """A broker gave a sign of life at this time (of the loop): it may be its last."""
        self._heard[broker_id] = at
        self._said.pop(broker_id, None)
        self._homeless.pop(broker_id, None)

    def wait_anew(self) -> None:
        """This controller stood still and may have missed signs of life: all that are away have as long again."""
        self._begun = self._loop.time()
        self._heard.clear()

    def outlook(self, broker_id: int, *, node_is_off: bool) -> Outlook:
        """The effects that the replacement of a broker would have."""
        metadata = self._metadata
        alone = [] if self._is_awaited(broker_id) else sole_copies(metadata, broker_id)
        away = [] if self._is_awaited(broker_id) else copies_away(metadata, broker_id)
        held = sum(1 for _ in held_by(metadata, broker_id))
        why_not = self._why_not(broker_id, node_is_off=node_is_off)
        return Outlook(broker_id, held, _names(alone), why_not, _names(away))

    def _why_not(self, broker_id: int, *, node_is_off: bool) -> str | None:
        metadata = self._metadata
        if broker_id not in metadata.brokers:
            return f"there is no broker {broker_id}"
        if broker_id not in self._away():
            return f"broker {broker_id} is there: `coterie brokers restart {broker_id}` starts it again with its data"
        if metadata.level < DIRECTORIES:
            return (
                f"coterie.metadata.version is {metadata.level}, and brokers can be replaced from {DIRECTORIES} on: "
                "upgrade it once all brokers have this release"
            )
        left = self._alone_s - self._silent_s(broker_id)
        if left > 0 and not node_is_off:
            return (
                f"broker {broker_id} may still serve alone where nobody sees it: wait {left:.0f} s more "
                "(coterie.broker.isolated.ms), or make sure that its node is off, and say so by --node-is-off"
            )
        return None

    @property
    def _alone_s(self) -> float:
        """The time for which a broker that has no controller serves; never shorter than its lease."""
        config = self._config()
        return max(config.integer("coterie.broker.isolated.ms"), config.integer("broker.session.timeout.ms")) / 1000

    @property
    def _after_s(self) -> float | None:
        """The silence after which a broker is replaced by itself; None if never."""
        after_ms = self._config().integer("coterie.broker.replace.after.ms")
        return None if after_ms < 0 else max(after_ms / 1000, self._alone_s)

    def _silent_s(self, broker_id: int) -> float:
        return self._loop.time() - self._heard.get(broker_id, self._begun)

    def _is_awaited(self, broker_id: int) -> bool:
        directory = self._metadata.directories.get(broker_id)
        return directory is not None and directory.awaited

    def absence(self, broker_id: int, now_ms: int) -> Absence | None:
        """Since when a broker is away, and what becomes of it; None if it is there. `now_ms` is wall time."""
        if broker_id not in self._away():
            return None
        outlook = self.outlook(broker_id, node_is_off=True)
        since_ms = now_ms - round(self._silent_s(broker_id) * 1000)
        after_s, is_awaited = self._after_s, self._is_awaited(broker_id)
        leaves = broker_id in self._metadata.removals
        kept = outlook.sole_copies or outlook.copies_away or outlook.refused or is_awaited or leaves
        return Absence(
            since_ms=since_ms,
            node_is_gone=self._homeless[broker_id] > 0,
            replaced=is_awaited,
            replaced_at_ms=None if kept or after_s is None else since_ms + round(after_s * 1000),
            sole_copies=outlook.sole_copies,
            copies_away=outlook.copies_away,
        )

    # --- the replacement ---

    def replace(self, broker_id: int, *, node_is_off: bool = False, accept_data_loss: bool = False) -> None:
        """Decide that the broker's directory is gone, and have it started with an empty one.

        One whose replacement has been decided is started again, on another node if this one is off. Raises
        CannotReplaceError.
        """
        outlook = self.outlook(broker_id, node_is_off=node_is_off)
        if outlook.refused is not None:
            raise CannotReplaceError(outlook.refused)
        if self._is_awaited(broker_id):
            self._start(broker_id, elsewhere=node_is_off)
            return
        if outlook.sole_copies and not accept_data_loss:
            raise CannotReplaceError(_sole(outlook))
        commit = self._changes.replaced(broker_id, self._new_id())
        if commit is None:
            raise CannotReplaceError(f"the metadata log takes no change: broker {broker_id} stays as it was")
        lost = f"; given up: {', '.join(outlook.sole_copies)}" if outlook.sole_copies else ""
        log.warning(
            "broker %d is replaced: an empty directory takes the place of its data, and %d partitions are filled from "
            "other brokers%s",
            broker_id,
            outlook.partitions,
            lost,
            extra=about(broker=broker_id),
        )
        commit.then(lambda: self._start(broker_id, elsewhere=node_is_off))

    def _start(self, broker_id: int, *, elsewhere: bool) -> None:
        if elsewhere:
            self._launcher.move_broker(broker_id)
        self._starts.forget(broker_id)
        self._starts.again(broker_id)

    def moved(self, broker_id: int) -> bool:
        """Give the directory that is awaited another id, because it is made on another node now.

        One with the former id may have been made where the broker was to start before. Its process must not come back
        with what counts as this broker's data. False if no directory is awaited any more: then the broker stays.
        """
        return self._is_awaited(broker_id) and self._changes.awaits(broker_id, self._new_id()) is not None

    def tick(self) -> None:
        """Replace brokers whose nodes are gone for `coterie.broker.replace.after.ms`, if nothing is lost by it."""
        after_s = self._after_s
        for broker_id in sorted(self._away()):
            if not self._launcher.home_is_gone(broker_id):  # of all, each time: no look may be old when it counts
                self._homeless[broker_id] -= 1  # the node is back, or Ray is slow
                continue
            self._homeless[broker_id] = _A_LOOK_TICKS
            if broker_id in self._metadata.removals:
                continue  # its partitions are moved to other brokers instead
            is_time = after_s is not None and self._silent_s(broker_id) >= after_s
            if is_time and not self._is_awaited(broker_id):
                try:
                    self._check_copies(broker_id)
                    self.replace(broker_id)
                except CannotReplaceError as error:
                    self._say(broker_id, str(error))

    def _check_copies(self, broker_id: int) -> None:
        """Refuse a replacement by itself while what the broker has is nowhere else to be read.

        If many are away at once, it is rather this controller that is cut off, or all nodes that start again.
        """
        away = copies_away(self._metadata, broker_id)
        if away:
            raise CannotReplaceError(
                f"the other copies of {', '.join(_names(away))} are on brokers that are away, too: bring one of them "
                f"back, or this one, or replace it by `coterie brokers replace {broker_id}`"
            )

    def _say(self, broker_id: int, why: str) -> None:
        """Say it once."""
        if self._said.get(broker_id) != why:
            self._said[broker_id] = why
            log.error(
                "the node of broker %d is gone, and it is not replaced by itself: %s",
                broker_id,
                why,
                extra=about(broker=broker_id),
            )


def _names(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(f"{topic}-{index}" for topic, index in keys)


def _sole(outlook: Outlook) -> str:
    return (
        f"broker {outlook.broker_id} alone has everything of {', '.join(outlook.sole_copies)}: bring its node or its "
        "data directory back, or give up what no other broker has (--accept-data-loss)"
    )
