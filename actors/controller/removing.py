"""Brokers that are removed by a person's word: when one may be, and who carries it on.

All that is known of a removal is in the metadata log. At each tick the controller decides the next step by what it
finds there; so it goes on after the death of the controller, of any broker, or of the command that asked for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set

from actors import CoterieError
from actors.controller.broker_changes import BrokerChanges
from actors.controller.decisions.removal import planned_moves, removal_refused, under_way, waits_for
from actors.controller.decisions.replacement import held_by
from actors.controller.metadata.log import Log
from actors.links.removals import PlannedMove, RemovalOutlook, RemovalStatus
from actors.runtime.logs import about
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)


class CannotRemoveError(CoterieError):
    """A broker is not removed; the text says why, and what to do."""


class Removing:
    """Removes brokers. `gone` hears of each that has been unregistered and is among those `wanted`.

    While brokers still come to a controller that has just begun, it is not `settled`: those that came first would get
    all that moves. `wall_ms` is wall time.
    """

    def __init__(
        self,
        metadata_log: Log,
        changes: BrokerChanges,
        config: Callable[[], BrokerConfig],
        wall_ms: Callable[[], int],
        wanted: Callable[[], Set[int]],
        settled: Callable[[], bool],
        gone: Callable[[int], None],
    ) -> None:
        self._log = metadata_log
        self._changes = changes
        self._config = config
        self._wall_ms = wall_ms
        self._wanted = wanted
        self._settled = settled
        self._gone = gone

    @property
    def _metadata(self) -> ClusterMetadata:
        return self._log.decided

    def outlook(self, broker_id: int) -> RemovalOutlook:
        """The outlook of a broker's removal, or how far it is."""
        metadata = self._log.committed
        if broker_id in metadata.removed:
            return RemovalOutlook(broker_id, removed=True)
        status = self.status(broker_id)
        if status is not None:
            return RemovalOutlook(broker_id, status=status)
        refused = removal_refused(metadata, self._config(), broker_id)
        return RemovalOutlook(broker_id, refused, () if refused else tuple(self._moves(broker_id)))

    def _moves(self, broker_id: int) -> list[PlannedMove]:
        metadata = self._log.committed
        held = dict(held_by(metadata, broker_id))
        planned = planned_moves(metadata, also=broker_id)
        return [PlannedMove(*key, held[key].replicas, new) for key, new in planned.items() if key in held]

    def status(self, broker_id: int) -> RemovalStatus | None:
        """The progress of a broker's removal; None if it is not being removed."""
        metadata = self._log.committed
        removal = metadata.removals.get(broker_id)
        if removal is None:
            return None
        left = sum(1 for _ in held_by(metadata, broker_id))
        moved, spent_ms = removal.partitions - left, self._wall_ms() - removal.begun_ms
        return RemovalStatus(
            removal.partitions,
            left,
            under_way(metadata, broker_id),
            removal.begun_ms,
            removal.throttle,
            seconds_left=spent_ms / 1000 * left / moved if moved > 0 and spent_ms > 0 else None,
            waits_for=waits_for(metadata, self._config(), broker_id),
        )

    def begin(self, broker_id: int, throttle: int | None = None) -> None:
        """Decide that a broker is removed. One that is being removed, or was, stays so. Raises CannotRemoveError.

        `throttle` bounds what each broker sends to followers out of sync meanwhile, in bytes a second; 0 takes a bound
        back, None leaves it as it is.
        """
        metadata = self._metadata
        if broker_id in metadata.removed:
            return
        is_new = broker_id not in metadata.removals
        refused = removal_refused(metadata, self._config(), broker_id) if is_new else None
        if refused is not None:
            raise CannotRemoveError(refused)
        if self._changes.removal_begun(broker_id, self._wall_ms(), throttle) is None:
            raise CannotRemoveError(f"the metadata log takes no change: broker {broker_id} stays as it was")
        if is_new:
            log.warning("broker %d is being removed", broker_id, extra=about(broker=broker_id))
        self.tick()

    def call_off(self, broker_id: int) -> None:
        """Have a broker stay that is being removed. Raises CannotRemoveError if it is not."""
        if broker_id not in self._metadata.removals:
            raise CannotRemoveError(f"broker {broker_id} is not being removed")
        if self._changes.removal_called_off(broker_id) is None:
            raise CannotRemoveError(f"the metadata log takes no change: broker {broker_id} is still being removed")
        log.warning("the removal of broker %d is called off", broker_id, extra=about(broker=broker_id))

    def tick(self) -> None:
        """Go on with all removals, as far as nothing has to be waited for."""
        if self._metadata.removals and self._settled():
            commit = self._changes.removals_go_on()
            if commit is not None:
                commit.then(self._let_go)
        self._let_go()

    def _let_go(self) -> None:
        for broker_id in sorted(self._log.committed.removed & self._wanted()):
            log.warning("broker %d was removed: it holds nothing any more", broker_id, extra=about(broker=broker_id))
            self._gone(broker_id)
