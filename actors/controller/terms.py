"""The terms of one of several controllers: the times in which it leads, and what it does when one begins or ends.

Before the cluster has been started, the program that starts it says what is to run. From then on one that begins to
lead takes over what runs already, as a controller does that Ray has restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from actors.controller.work_thread import Work
from actors.links.not_controller import NotControllerError

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.1


class Terms(Protocol):
    """Hears of the cluster's start, in a controller's process."""

    @property
    def has_log(self) -> bool:
        """True if this process has found a log on its disk."""

    def start_cluster(self) -> None:
        """A program starts the cluster as a whole, by this controller. Raises ClusterError, OSError."""

    def cluster_started(self) -> None:
        """The cluster has been started, perhaps by another controller."""


class _OfOneAlone:
    has_log = True

    def start_cluster(self) -> None:
        """All was done when its process started."""

    def cluster_started(self) -> None:
        """It has started it."""


OF_ONE_ALONE: Final[Terms] = _OfOneAlone()
"""Those of a controller that is the only one: it leads from its start to its end."""


class TermsOfVoter:
    """Those of one of several. `take_over` and `begin` make calls of Ray's: `work` does them, in its own thread.

    `take_over` goes on with a cluster that runs, `begin` prepares a start of the whole cluster, and `rest` has nothing
    be started any more, at once. `started`: the cluster runs already.
    """

    def __init__(
        self,
        work: Work,
        take_over: Callable[[], None],
        begin: Callable[[], None],
        rest: Callable[[], None],
        *,
        started: bool,
        has_log: bool,
    ) -> None:
        self._work = work
        self._take_over_cluster = take_over
        self._begin = begin
        self._rest = rest
        self._started = started
        self.has_log = has_log
        self._term = 0
        self._taken = 0  # the term in which the cluster was started, or taken over
        self._leads = False

    def began(self) -> None:
        """This node leads from now on."""
        self._term += 1
        self._leads = True
        self._take_over_later()

    def look(self, *, leads: bool) -> None:
        """It leads, or does so no more."""
        if self._leads and not leads:
            self._leads = False
            self._rest()

    def start_cluster(self) -> None:
        """A program starts the cluster as a whole: nothing of an earlier run is taken over. Raises OSError."""
        term = self._term
        self._begin()
        self._taken = term
        self._started = True

    def cluster_started(self) -> None:
        """The cluster has been started: from now on, who begins to lead takes over what runs."""
        if not self._started:
            self._started = True
            self._take_over_later()

    def _take_over_later(self) -> None:
        if self._started:
            self._work.put(partial(self._take_over, self._term))

    def _take_over(self, term: int) -> None:
        if not self._leads or term != self._term or self._taken == term:
            return
        try:
            self._take_over_cluster()
            self._taken = term
        except NotControllerError:  # it leads no more; or it is just beginning, and its parts are not there yet
            self._work.later(_SOON_SECONDS, partial(self._take_over, term))
        except Exception as error:  # Ray's own, too, if it is away or busy
            log.error("what runs cannot be taken over yet: %s", error)
            self._work.later(_AGAIN_SECONDS, partial(self._take_over, term))
