"""A log that commits when a test says so, as one that several nodes agree on does."""

from __future__ import annotations

from collections.abc import Sequence

from actors.controller.metadata.commits import Commit, DecidedMetadata, NotControllerError
from placement.metadata import ClusterMetadata
from placement.records import Record


class HeldLog:
    """Nothing commits while it is `held`."""

    def __init__(self) -> None:
        self.states = DecidedMetadata(ClusterMetadata())
        self.held = False

    @property
    def decided(self) -> ClusterMetadata:
        return self.states.decided

    @property
    def committed(self) -> ClusterMetadata:
        return self.states.committed

    @property
    def end(self) -> Commit:
        return self.states.end

    @property
    def next_epoch(self) -> int:
        return self.decided.controller_epoch + 1

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
        commit = self.states.decide(records)
        if not self.held:
            self.states.commit(commit.index)
        return commit

    def commit(self) -> None:
        """All that was decided commits."""
        self.held = False
        self.states.commit(self.decided.version)

    def close(self) -> None: ...
