"""A metadata log whose records commit after a while, as those of one that several nodes agree on will."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from actors.controller.metadata.commits import Commit, DecidedMetadata, NotControllerError
from actors.controller.metadata.log import Log
from placement.metadata import ClusterMetadata
from placement.records import Record
from tests.sim.engine import MS, Process, Simulation

_LATE_US = 300 * MS


class LateLog:
    """Writes to `log` when a change commits. If its process dies before, the change is lost.

    A disk that refuses a change ends the leadership of its controller: `resign` is called.
    """

    def __init__(self, log: Log, sim: Simulation, process: Process, resign: Callable[[], None]) -> None:
        self._log = log
        self._sim = sim
        self._process = process
        self._resign = resign
        self._states = DecidedMetadata(log.committed.copy())
        self._waiting: deque[tuple[Commit, Sequence[Record], int]] = deque()
        self._last_at = 0

    @property
    def decided(self) -> ClusterMetadata:
        return self._states.decided

    @property
    def committed(self) -> ClusterMetadata:
        return self._states.committed

    @property
    def end(self) -> Commit:
        return self._states.end

    @property
    def next_epoch(self) -> int:
        return self._log.next_epoch

    @property
    def leads(self) -> bool:
        return True

    def leads_in(self, epoch: int) -> bool:
        return epoch >= self.decided.controller_epoch

    @property
    def failure(self) -> OSError | None:
        return None

    def confirms(self) -> bool:
        return True

    def append(self, records: Sequence[Record], epoch: int) -> Commit:
        if epoch < self.decided.controller_epoch:
            raise NotControllerError("another controller has begun")
        commit = self._states.decide(records)
        self._waiting.append((commit, records, epoch))
        self._last_at = max(self._last_at, self._sim.now + self._sim.random.randint(0, _LATE_US))
        self._sim.at(self._last_at, self._process, self._write)
        return commit

    def _write(self) -> None:
        if not self._waiting:
            return
        commit, records, epoch = self._waiting.popleft()
        try:
            self._log.append(records, epoch)
        except (OSError, NotControllerError):
            self._waiting.clear()
            self._states.drop()
            self._resign()
        else:
            self._states.commit(commit.index)

    def close(self) -> None:
        self._log.close()
