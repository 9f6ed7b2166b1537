"""Deploying a pool: its version is written to the topic, and a supervisor is started if it has none."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from ray import cloudpickle

from actors.client.config import security_settings
from actors.members.autoscale import Autoscale
from actors.members.deployment import supervisor_actor
from actors.members.deployment.book import Book
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.description import PoolState
from actors.members.deployment.home import Home
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import (
    Deployment,
    PoolRecord,
    autoscale_values,
    check_name,
    python_version,
    security_texts,
)
from actors.members.deployment.spec import SupervisorSpec
from actors.members.pools.plan import PoolError, PoolPlan
from actors.members.pools.topics_there import check_topics
from actors.runtime.environment import REAL, new_uuid

log = logging.getLogger(__name__)

_KNOWN_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_NOT_HERE: Final = {
    "ask": "an Admin asks",
    "instance_prefix": "members are called by the pool's name",
    "environment": "the supervisor has that of its own process",
    "patience": "the supervisor has its own",
}


def deploy(
    name: str,
    topics: str | Sequence[str],
    group_id: str,
    handler: Callable[..., Any] | type,
    size: int | None,
    *,
    bootstrap_servers: str,
    autoscale: Autoscale | None,
    create_topic: bool = False,
    **options: Any,
) -> DeployedPool:
    """See ConsumerPool.deploy."""
    if not supervisor_actor.connected():
        raise PoolError("this process is not connected to Ray: call ray.init(address=...) or Cluster.connect first")
    check_name(name)
    for each, why in _NOT_HERE.items():
        if each in options:
            raise PoolError(f"{each} is not for deployed pools: {why}")
    arguments = {
        "topics": topics,
        "group_id": group_id,
        "handler": handler,
        "size": size,
        "autoscale": autoscale,
        **options,
    }
    plan = PoolPlan.of(bootstrap_servers=bootstrap_servers, **arguments)
    plan.version()  # raises for options of actors that Ray does not know
    check_topics(plan.spec, create=create_topic)
    security = security_settings(options)
    topic = PoolsTopic(bootstrap_servers, **security)
    topic.create()
    cluster_id = topic.cluster_id()
    book = topic.read()
    home = Home(cluster_id)
    at_home = home.is_here()
    with _asking():
        before = _before(name, book, home if at_home else None)
    _check_same(name, before, plan)
    deployment = Deployment(
        incarnation=before.deployment.incarnation if before is not None else _new_id(),
        id=_new_id(),
        version=before.deployment.version + 1 if before is not None else 1,
        deployed_at_ms=REAL.clock.wall_ms(),
        group_id=group_id,
        topics=plan.spec.topics,
        size=size,
        autoscale=autoscale_values(autoscale),
        bootstrap_servers=bootstrap_servers,
        settings=security_texts(security),
        at_home=at_home,
        python=python_version(),
        body=cloudpickle.dumps(arguments),
    )
    with _asking():
        _write(topic, name, deployment, home if at_home else None)
    pool = DeployedPool(name, bootstrap_servers, **security)
    after = before.actor if before is not None else ""
    spec = SupervisorSpec(name, cluster_id, bootstrap_servers, security, after, at_home)
    _supervise(spec, deployment.version)
    return pool


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """A controller that cannot be asked is an error of the pool's."""
    try:
        yield
    except ConnectionError as error:
        raise PoolError(str(error)) from error


def _before(name: str, book: Book, home: Home | None) -> PoolRecord | None:
    """The pool as it is; None if there is none, or at home if what stands there was not deployed here.

    At home an old version may have been written again: versions are counted from the newest that the controller knows.
    """
    before = book.pool(name)
    if before is None or home is None:
        return before
    try:
        home.check(name, before.deployment)
    except PoolError as error:
        newest = home.newest(name)
        if newest is not None and newest.incarnation == before.deployment.incarnation:
            return replace(before, deployment=replace(before.deployment, version=newest.version))
        log.warning("pool %s is deployed as a new one: %s", name, error)
        return None
    return before


def _write(topic: PoolsTopic, name: str, deployment: Deployment, home: Home | None) -> None:
    """Write a version, at home with its seal; the controller is told when it stands there."""
    sealed = deployment if home is None else home.sealed(name, deployment)
    topic.write(name, sealed)
    if home is not None:
        home.check(name, sealed)


def _new_id() -> str:
    return new_uuid(REAL.chance).hex


def _check_same(name: str, before: PoolRecord | None, plan: PoolPlan) -> None:
    """Raise PoolError if this would be another pool: its group's offsets, or its partitions, are other ones."""
    if before is None:
        return
    for what, old, new in (
        ("group", before.deployment.group_id, plan.spec.group_id),
        ("topics", ", ".join(before.deployment.topics), ", ".join(plan.spec.topics)),
    ):
        if old != new:
            raise PoolError(
                f"pool {name!r} has the {what} {old!r}, and {new!r} would be another pool: deploy that under another "
                "name, or stop this one first"
            )


def _supervise(spec: SupervisorSpec, version: int) -> None:
    """Return when a supervisor knows the version, or a newer one. One that is just ending itself is replaced."""
    clock = REAL.clock
    deadline = clock.monotonic() + _KNOWN_SECONDS
    while clock.monotonic() < deadline:
        supervisor_actor.start(spec)
        found = supervisor_actor.describe(spec.cluster_id, spec.name)
        if found is not None and found.state is not PoolState.STOPPED and found.version >= version:
            return
        threading.Event().wait(_LOOK_SECONDS)
    raise PoolError(
        f"pool {spec.name!r} is deployed, but its supervisor does not answer: see `ray status`, and the log of the "
        "actor on Ray's node"
    )
