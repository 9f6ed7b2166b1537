"""What only Coterie knows of groups, for `coterie groups describe --state --verbose`.

Kafka's protocol cannot ask whom a group waits for, or why it rebalanced. So this asks the cluster itself, over Ray, as
`coterie status` does; of Apache Kafka's groups there is nothing more than their state.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from actors.cli.output import note

if TYPE_CHECKING:
    from actors.client.admin.types import GroupDescription
    from actors.links.group_status import GroupStatus


def statuses(
    groups: Sequence[GroupDescription], cluster_id: str | None, ray_address: str | None, name: str, data_dir: str
) -> dict[str, GroupStatus]:
    """What the coordinators know of these groups of the cluster `cluster_id`, by group.

    Empty, with a note that says why, if no cluster of Coterie with that id is found there.
    """
    from actors.cluster import Cluster, ClusterError

    try:
        # Ray writes warnings to standard output, where they would stand in the table or the JSON.
        with (
            redirect_stdout(sys.stderr),
            Cluster.connect(ray_address, name, data_dir=None if ray_address else data_dir) as cluster,
        ):
            if cluster.status()["cluster_id"] != cluster_id:
                raise ClusterError(
                    f"cluster {name!r}, which was found on Ray, is not the one of the bootstrap server: give the "
                    "--ray-address or --data-dir of that one"
                )
            found = {group.group_id: cluster.group_status(group.group_id, group.coordinator.id) for group in groups}
    except ClusterError as error:
        note(f"Only Coterie knows what a group waits for and why it rebalanced, and it could not be asked: {error}")
        return {}
    if None in found.values():
        note("Some coordinators did not answer, or no longer have the group.")
    return {group_id: status for group_id, status in found.items() if status is not None}
