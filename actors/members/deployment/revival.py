"""Bringing pools back whose supervisors have gone with their Ray: their members take their old places in the group."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from actors.client.errors import KafkaError
from actors.members.deployment import supervisor_actor
from actors.members.deployment.book import Book
from actors.members.deployment.home import Home
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import Deployment
from actors.members.deployment.sealing_anew import seal_anew
from actors.members.deployment.spec import SupervisorSpec
from actors.members.pools.plan import PoolError, no_pool

log = logging.getLogger(__name__)

_PROBE_MS: Final = 3_000


def revive(bootstrap_servers: str, names: Sequence[str], *, at_home: bool, **security: Any) -> list[str]:
    """Start supervisors for pools that have none here: of these names, or of all. Returns for which.

    Of all, those are left out that cannot be read or started, and a line of the log says why; of these names, PoolError
    and KafkaError are raised.

    With `at_home` only for those that were deployed on the Ray of their brokers. `security` is for reading the topic;
    a pool logs in as it was told when it was deployed. On the Ray of the brokers, what is not sealed is not believed.
    """
    if not supervisor_actor.connected():
        raise PoolError("this process is not connected to Ray, where the supervisors would run: ray.init(...) first")
    topic = PoolsTopic(bootstrap_servers, **security)
    book = topic.read()
    cluster_id = topic.cluster_id()
    home = Home(cluster_id)
    here = home if home.is_here() else None
    if here is None and at_home:
        raise PoolError("the cluster's controller is not on this Ray, so that nobody knows the seals of its pools")
    if here is not None:
        if seal_anew(book, here, topic):
            book = topic.read()
        here.only_these(frozenset(book.names()))
    started = []
    for name in names or book.names():
        try:
            if _revive(name, book, cluster_id, bootstrap_servers, here, at_home=at_home):
                started.append(name)
        except (PoolError, KafkaError, OSError) as error:
            if names:
                raise
            log.warning("pool %s does not begin again: %s", name, error)
    return started


def _revive(
    name: str, book: Book, cluster_id: str, bootstrap_servers: str, home: Home | None, *, at_home: bool
) -> bool:
    record = book.pool(name)
    if record is None:
        raise no_pool(name)
    deployment = record.deployment
    if supervisor_actor.is_there(cluster_id, name) or (at_home and not deployment.at_home):
        return False
    if home is not None:
        home.check(name, deployment)  # before anything is done that it says
    servers = _servers(deployment, cluster_id, bootstrap_servers)
    spec = SupervisorSpec(name, cluster_id, servers, deployment.security, record.actor, home is not None)
    supervisor_actor.start(spec)
    return True


def _servers(deployment: Deployment, cluster_id: str, others: str) -> str:
    """The addresses that the pool was deployed with, if its cluster is still there; otherwise the `others`."""
    probe = PoolsTopic(
        deployment.bootstrap_servers,
        default_api_timeout_ms=_PROBE_MS,
        request_timeout_ms=_PROBE_MS,
        **deployment.security,
    )
    try:
        return deployment.bootstrap_servers if probe.cluster_id() == cluster_id else others
    except KafkaError:
        return others
