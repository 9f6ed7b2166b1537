"""Reports of a pool's figures to the clusters on its Ray, every few seconds. Nobody waits for them.

Where the pool's group is another Kafka's, no cluster knows it, and none shows anything of it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final

from actors.links.pools import MemberFigures, PoolFigures
from actors.runtime import controllers, ray_session
from actors.runtime.logs import about
from actors.runtime.named_actors import NAMED_ON_RAY, FoundActor
from actors.runtime.process import last_line
from actors.runtime.ray_session import RayAwayError, RaySession

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
_FIND_SECONDS: Final = 60.0


class Clusters:
    """The clusters on this Ray, by their controllers' actors. They are looked for once a minute."""

    def __init__(self, monotonic: Callable[[], float], session: RaySession | None = None) -> None:
        self._monotonic = monotonic
        self._session = session or ray_session.session()
        self._found: list[FoundActor] = []
        self._due = monotonic()

    def report(self, figures: PoolFigures) -> None:
        """Send them to their controllers. Raises what Ray does."""
        with contextlib.suppress(RayAwayError):
            self._session.call(self._report, figures)

    def _report(self, figures: PoolFigures) -> None:
        if self._monotonic() >= self._due:
            found = controllers.of_all_clusters()  # of several, those that do not lead take no notice
            self._found = [NAMED_ON_RAY.find(each) for each in found]
            self._due = self._monotonic() + _FIND_SECONDS
        for controller in self._found:
            controller.ask("tell_of_pool", figures)


class FigureReports:
    """A thread that reports until `end`. `members` gives the figures of the pool's members."""

    def __init__(
        self,
        pool: str,
        group_id: str,
        members: Callable[[], tuple[MemberFigures, ...]],
        report: Callable[[PoolFigures], None],
        interval_s: float = INTERVAL_SECONDS,
    ) -> None:
        self._pool = pool
        self._group_id = group_id
        self._members = members
        self._report = report
        self._interval_s = interval_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pool-figures", daemon=True)

    def start(self) -> None:
        """Report from now on."""
        self._thread.start()

    def end(self) -> None:
        """Report no more. It does not wait for a report that is under way."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._interval_s):
            try:
                self._report(PoolFigures(self._pool, self._group_id, self._members()))
            except Exception as error:  # Ray raises many kinds; the next figures have all that these had
                of_group = about(group=self._group_id)
                log.info(
                    "group %s: its members' figures could not be told: %s",
                    self._group_id,
                    last_line(error),
                    extra=of_group,
                )
