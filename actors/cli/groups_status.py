"""The facts that only Coterie knows of groups, for `coterie groups describe --state --verbose`.

Kafka's protocol cannot ask whom a group waits for, why it rebalanced, or how long a record has waited. So this asks the
cluster itself, over Ray, as `coterie status` does; of Apache Kafka's groups there is nothing more than their state.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.cli.output import note
from actors.cli.views import Views
from actors.links.views import GetGroup, GroupView

if TYPE_CHECKING:
    from actors.client.admin.types import GroupDescription
    from actors.cluster import Cluster
    from actors.links.group_status import GroupStatus


@dataclass(frozen=True, slots=True)
class Known:
    """A group, as its coordinator and the Monitor know it; None where one of them does not say."""

    status: GroupStatus | None
    seen: GroupView | None


Statuses = Callable[[Sequence["GroupDescription"]], dict[str, Known]]


@contextmanager
def statuses(cluster_id: str | None, ray_address: str | None, name: str, data_dir: str) -> Iterator[Statuses]:
    """A function that says what is known of groups of the cluster `cluster_id`, by group.

    It says nothing, and a note says why, if no cluster of Coterie with that id is found there.
    """
    from actors.cluster import Cluster, ClusterError

    with ExitStack() as stack:
        try:
            # Ray writes warnings to standard output, where they would stand in the table or the JSON.
            with redirect_stdout(sys.stderr):
                found = Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir)
                cluster = stack.enter_context(found)
                if cluster.status()["cluster_id"] != cluster_id:
                    raise ClusterError(
                        f"cluster {name!r}, which was found on Ray, is not the one of the bootstrap server: give the "
                        "--ray-address or --data-dir of that one"
                    )
        except ClusterError as error:
            note(f"Only Coterie knows what a group waits for and why it rebalanced, and it could not be asked: {error}")
            yield lambda groups: {}
        else:
            yield partial(_ask, cluster)


def _ask(cluster: Cluster, groups: Sequence[GroupDescription]) -> dict[str, Known]:
    statuses = {group.group_id: cluster.group_status(group.group_id, group.coordinator.id) for group in groups}
    if None in statuses.values():
        note("Some coordinators did not answer, or no longer have the group.")
    seen = _seen(cluster, list(statuses))
    return {group_id: Known(status, seen.get(group_id)) for group_id, status in statuses.items()}


def _seen(views: Views, groups: Sequence[str]) -> dict[str, GroupView]:
    """The groups as the Monitor knows them; none, with a note, if there is no Monitor."""
    from actors.cluster import ClusterError

    try:
        return {group: views.view(GetGroup(group, rebalances=0)) for group in groups}
    except ClusterError as error:
        note(f"The lag in time is not known: {error}")
        return {}
