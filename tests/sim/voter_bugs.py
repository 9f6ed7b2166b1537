"""Bugs planted in a controller that is one of several. They are found in runs with three of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from actors.controller.active import ActiveController
from actors.controller.metadata.commits import Commit
from actors.controller.metadata.quorum_log import QuorumLog
from actors.links.control import Confirmed
from placement.metadata import ClusterMetadata
from placement.records import Record, UnregisterControllerRecord

Changes = list[tuple[Any, str, Any]]

VOTER_BUGS: dict[str, Callable[[], Changes]] = {}


def bug(make: Callable[[], Changes]) -> Callable[[], Changes]:
    VOTER_BUGS[make.__name__.replace("_", "-")] = make
    return make


@bug
def lease_of_a_former_controller() -> Changes:
    """A controller extends leases when another one may have been elected."""

    def confirm(server: ActiveController, protocol: Any, sent: float) -> None:
        protocol.send(Confirmed(sent))

    return [(ActiveController, "confirm", confirm)]


@bug
def next_controller_gives_no_lease() -> Changes:
    """A controller takes brokers for dead that it has not heard of yet. They may have a lease of the one before."""
    product = ActiveController.begin

    def begin(server: ActiveController, address: tuple[str, int]) -> None:
        product(server, address)
        server.liveness.began -= server.liveness.lease_s

    return [(ActiveController, "begin", begin)]


@bug
def committed_by_its_leader_alone() -> Changes:
    """Records count as committed before a majority has them."""
    product = QuorumLog.append

    def append(log: QuorumLog, records: Sequence[Record], epoch: int) -> Commit:
        commit = product(log, records, epoch)
        log.states.commit(commit.index)
        return commit

    return [(QuorumLog, "append", append)]


@bug
def next_controller_forgets_what_it_had_not_heard_to_be_committed() -> Changes:
    """A controller decides without the end of its log, which may have committed under the one before."""
    product = QuorumLog._decide

    def _decide(log: QuorumLog, entries: Any) -> None:
        entries = list(entries)
        if log.leads and all(entry.index > log._applied for entry in entries):
            return
        product(log, entries)

    return [(QuorumLog, "_decide", _decide)]


@bug
def removed_controller_comes_back() -> Changes:
    """Nobody remembers that a controller was removed: as one of those that are wanted it gets a vote again."""
    product = ClusterMetadata.apply

    def apply(metadata: ClusterMetadata, record: Record) -> None:
        if isinstance(record, UnregisterControllerRecord):
            record = replace(record, barred=False)
        product(metadata, record)

    return [(ClusterMetadata, "apply", apply)]
