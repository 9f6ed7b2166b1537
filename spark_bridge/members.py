"""The group members of a query: Ray actors beside the executors, or threads of the driver where there is no Ray.

A member that dies is replaced under its `group.instance.id`. Its successor has the same partitions at once, and the
other members of the group notice nothing. The dead member's part of a running batch is not committed.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import ray
from ray.exceptions import RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import CoterieError
from actors.client import Admin, TopicPartition
from actors.client.config import consumer_config, security_settings
from actors.client.errors import KafkaError
from actors.links.member_process import kind_on_node
from actors.members.ranges.group import Done, Held, Holding, RangeMemberSpec, await_settled, member_settings
from actors.members.ranges.member import RangeMember
from actors.runtime.logs import about
from actors.runtime.process import check_same_version, code_version, last_line
from placement.nodes import alive_nodes
from spark_bridge.executors import ENDED
from spark_bridge.spark_config import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_STOP_SECONDS = 30.0
_GOODBYE_MS = 10_000
_NOTHING = Holding("", -1, False, ())


@dataclass(frozen=True, slots=True)
class Share:
    """A partition of a batch: the member that holds it, its first offset, and the fencing token."""

    member: int
    held: Held


class MemberStartError(CoterieError, RuntimeError):
    """A member of a query could not be started. The text is one line and says why."""


class Host(Protocol):
    """One member, in an actor or in a thread. After its death it holds nothing."""

    def begin(self) -> Holding: ...
    def holding(self) -> Holding: ...
    def finish(self, done: Done) -> list[tuple[str, int]]: ...
    def stop(self) -> None: ...


@ray.remote(num_cpus=0, max_restarts=0, max_concurrency=8)
class GroupMember:
    """The actor of one member of a Spark job's group. Only what it has committed survives its death."""

    def __init__(self, spec: RangeMemberSpec, version: str) -> None:
        check_same_version(version)
        self._member = RangeMember(_on_process(spec, kind_on_node("spark", ray.get_runtime_context().get_node_id())))

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the member."""
        return getattr(self._member, method)(*arguments)


def _on_process(spec: RangeMemberSpec, process: str) -> RangeMemberSpec:
    """The spec of a member that says this of its process."""
    return replace(spec, options={"group_member_process": process, **spec.options})


class _InThread:
    """A member in a thread of the driver. It ends with the driver."""

    def __init__(self, spec: RangeMemberSpec) -> None:
        member = RangeMember(_on_process(spec, "spark"))
        self.begin, self.holding, self.finish = member.begin, member.holding, member.finish
        self._member = member

    def stop(self) -> None:
        self._member.stop(_STOP_SECONDS)


def _in_thread(spec: RangeMemberSpec, _node_id: str | None) -> Host:
    return _InThread(spec)


class _OnRay:
    """A member in a Ray actor, which is replaced when it dies."""

    def __init__(self, spec: RangeMemberSpec, node_id: str | None) -> None:
        self._spec = spec
        where = "SPREAD" if node_id is None else NodeAffinitySchedulingStrategy(node_id, soft=True)
        self._make = GroupMember.options(scheduling_strategy=where)  # type: ignore[attr-defined]
        self._stopped = False
        self.actor = self._make.remote(spec, code_version())

    def begin(self) -> Holding:
        found: Holding = self._call(_NOTHING, "begin")
        return found

    def holding(self) -> Holding:
        found: Holding = self._call(_NOTHING, "holding")
        return found

    def finish(self, done: Done) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = self._call([], "finish", done)
        return found

    def stop(self) -> None:
        self._stopped = True
        if not ray.is_initialized():  # it has ended with its Ray, and to ask for it would start another one
            return
        try:
            ray.get(self.actor.call.remote("stop", _STOP_SECONDS), timeout=_STOP_SECONDS + 5)
        except (RayActorError, TimeoutError) as error:
            log.warning(
                "a member of group %s did not stop by itself: %s",
                self._spec.group_id,
                last_line(error),
                extra=about(group=self._spec.group_id),
            )
        ray.kill(self.actor)

    def _call(self, instead: Any, method: str, *arguments: Any) -> Any:
        if not ray.is_initialized():
            raise SessionError(f"{ENDED}, and its Ray with it")
        try:
            return ray.get(self.actor.call.remote(method, *arguments))
        except RayActorError as error:
            if error.actor_init_failed:  # the next one would fare no better
                why = f"a member of group {self._spec.group_id} could not be started: {last_line(error)}"
                raise MemberStartError(why) from error
            if self._stopped:
                raise
            log.warning(
                "a member of group %s has died and is replaced: %s",
                self._spec.group_id,
                last_line(error),
                extra=about(group=self._spec.group_id),
            )
            ray.kill(self.actor)  # where only the way to it is broken, it must not stay beside its successor
            self.actor = self._make.remote(self._spec, code_version())
            return instead


def executor_nodes(spark: SparkSession) -> list[str | None] | None:
    """The Ray node of each of the session's executors; None without Ray."""
    if not ray.is_initialized():
        return None
    hosts = [info.host() for info in spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()]
    by_address = {node.address: node.node_id for node in alive_nodes()}
    return [by_address.get(host) for host in hosts if host in by_address] or [None]


class Members:
    """The members of one query. Each method asks all of them at once.

    They are placed on the Ray nodes `nodes` in turn; None makes them threads of this process. Their instance ids begin
    with `instance_prefix`. If the options have a `group_instance_id`, they begin with that, and the members stay in the
    group when they stop. `make` makes each, in place of a thread or of an actor on its node. Raises ConfigurationError
    for options that a member cannot have.
    """

    def __init__(
        self,
        spec: RangeMemberSpec,
        count: int,
        nodes: Sequence[str | None] | None,
        instance_prefix: str,
        make: Callable[[RangeMemberSpec, str | None], Host] | None = None,
    ) -> None:
        make = make or (_in_thread if nodes is None else _OnRay)
        self._spec = spec
        consumer_config(member_settings(spec))
        self._static: list[str] = []
        self._hosts: list[Host] = []
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="coterie-members")
        given = spec.options.get("group_instance_id")
        for number in range(count):
            name = f"{instance_prefix}-{number}"
            options = {"client_id": name, "group_expected_members": count, **spec.options}
            if given:
                options["group_instance_id"] = f"{given}-{number}"
            elif nodes is not None:  # an id of its own, whatever characters the group's name has
                options["group_instance_id"] = re.sub(r"[^a-zA-Z0-9._-]", "_", name)
                self._static.append(options["group_instance_id"])
            own = replace(spec, options=options)
            self._hosts.append(make(own, nodes[number % len(nodes)] if nodes else None))

    def __len__(self) -> int:
        return len(self._hosts)

    def holding(self) -> list[Holding]:
        """The partitions that each member holds now."""
        return list(self._pool.map(lambda host: host.holding(), self._hosts))

    def begin(self) -> dict[tuple[str, int], Share]:
        """Begin a batch of everything that the members hold."""
        found = self._pool.map(lambda host: host.begin(), self._hosts)
        return {
            (held.topic, held.partition): Share(member, held)
            for member, holding in enumerate(found)
            for held in holding.partitions
        }

    def finish(
        self, until: Mapping[tuple[str, int], int], shares: Mapping[tuple[str, int], Share]
    ) -> set[tuple[str, int]]:
        """End the batch and commit these offsets; {} commits none. Returns the partitions whose commit counted."""
        done: list[dict[tuple[str, int], tuple[int, str]]] = [{} for _ in self._hosts]
        for partition, offset in until.items():
            share = shares[partition]
            done[share.member][partition] = (offset, share.held.fencing_token)
        counted = self._pool.map(lambda pair: pair[0].finish(pair[1]), zip(self._hosts, done, strict=True))
        return {(topic, partition) for some in counted for topic, partition in some}

    def await_settled(
        self, partitions: Collection[TopicPartition], give_up: Callable[[], bool], timeout_s: float
    ) -> None:
        """Wait until every member has its assignment. Raises KafkaTimeoutError naming the group."""
        await_settled(self.holding, self._spec, partitions, timeout_s, give_up)

    def stop(self) -> None:
        """Have every member leave without committing. Any thread may call it, even while another waits for a member."""
        with self._stop_lock:
            if self._stopped:
                return
            self._stopped = True
            with ThreadPoolExecutor(len(self._hosts)) as pool:
                list(pool.map(lambda host: host.stop(), self._hosts))
            self._pool.shutdown(wait=False)
            self._forget()

    def _forget(self) -> None:
        """Remove the members from the group, because static ones do not leave by themselves."""
        if not self._static:
            return
        try:
            settings = {"default_api_timeout_ms": _GOODBYE_MS, **security_settings(self._spec.options)}
            with Admin(bootstrap_servers=self._spec.bootstrap_servers, **settings) as admin:
                admin.remove_members_from_consumer_group(
                    self._spec.group_id, group_instance_ids=self._static, reason="its query has stopped"
                )
        except (KafkaError, OSError) as error:
            log.warning(
                "group %s: its members stay until their session ends: %s",
                self._spec.group_id,
                error,
                extra=about(group=self._spec.group_id),
            )
