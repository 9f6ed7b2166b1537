"""Bringing pools back whose supervisors have gone with their Ray: their members take their old places in the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.client.config import SECURITY_NAMES
from actors.members.deployment import supervisor_actor
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.supervisor_actor import SupervisorSpec
from actors.members.plan import PoolError


def revive(bootstrap_servers: str, names: Sequence[str], *, at_home: bool, **security: Any) -> list[str]:
    """Start supervisors for pools that have none here: of these names, or of all. Returns for which.

    With `at_home` only for those that were deployed on the Ray of their brokers.
    """
    topic = PoolsTopic(bootstrap_servers, **security)
    book = topic.read()
    cluster_id = topic.cluster_id()
    started = []
    for name in names or book.names():
        record = book.pool(name)
        if record is None:
            raise PoolError(f"there is no pool called {name!r}")
        if supervisor_actor.is_there(cluster_id, name) or (at_home and not record.deployment.at_home):
            continue
        settings = record.deployment.security
        settings |= {each: value for each, value in security.items() if each in SECURITY_NAMES}
        supervisor_actor.start(SupervisorSpec(name, cluster_id, bootstrap_servers, settings))
        started.append(name)
    return started
