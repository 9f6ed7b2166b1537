"""ConsumerPool: a group of Ray actors that divide topics among themselves and run a handler.

    def handle(record):
        print(record.value)

    with ConsumerPool(["orders"], "billing", handle, size=3, bootstrap_servers=servers) as pool:
        pool.wait()

Each actor is one member. The pool has a connection to each of them. When one ends, the actor is dead, and a new one
takes its place under the same `group.instance.id`, so that the other members notice nothing (supervision.py). Only
what was committed survives a death; records that were handled after the last commit come again. With `autoscale` the
pool follows its load (scaling.py).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import ray

from actors import CoterieError
from actors.client import Admin
from actors.client.config import security_settings
from actors.client.errors import KafkaError
from actors.client.net.security import refuse_secrets
from actors.members.autoscale import Autoscale
from actors.members.consumer_actor import ActorStarter
from actors.members.handler_member import DESERIALIZERS, MAX_BATCH_RECORDS, BatchFormat, MemberSpec
from actors.members.handling.spec import REVOKE_WAIT_MS
from actors.members.load import GroupLoad, PoolLoad
from actors.members.member_link import MemberEndedError
from actors.members.scaling import Scaling
from actors.members.slots import MemberStatus, Slot
from actors.members.supervision import Supervision
from actors.members.telling import Clusters, Telling
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.logs import about

log = logging.getLogger(__name__)

_PREFIX_MAX = 230  # of the 249 characters an instance id may have
_DRAIN_SECONDS = 30.0
_CHANGES_MAX = 100


class PoolError(CoterieError, RuntimeError):
    """A pool cannot be made, or cannot go on; the text says what is wrong, or which member failed and why."""


@dataclass(frozen=True, slots=True)
class SizeChange:
    """When a pool's size has changed (Unix milliseconds), and why."""

    wall_ms: int
    before: int
    after: int
    reason: str


class ConsumerPool:
    """`size` consumer actors in one group, supervised. With `autoscale` the size follows the load, from `size` on.

    `handler` is a function or a class (made once in each actor with `handler_args`, so that it may keep state), sync
    or async. By `batch_format` it gets one ConsumerRecord ("record"), a list of them from one partition ("records"),
    or an Arrow RecordBatch from one partition ("pyarrow"), of at most `max_batch_records`, for which it waits up to
    `batch_max_ms`. If it has a second parameter, it gets a `Context`, too. Up to `concurrency` records of different
    keys, or batches of different partitions, are handled at a time, in threads or, by an async handler, as tasks.

    A rebalance of the group waits until the handler returns, which may take up to `max_poll_interval_ms`; for what is
    handled side by side it waits up to `revoke_wait_ms`. When the handler raises, the records are tried
    `max_retries` more times, with growing pauses from `retry_backoff_ms` on. After that the record goes to
    `dead_letter_topic`; without one its member stops, and `wait` raises PoolError.

    The members are static, with the instance ids `instance_prefix`-0, -1, ...: if the program is killed, a new pool
    with the same prefix has the same partitions at once. Only one pool at a time may use a prefix in a group; without
    one the ids are new each time.

    Further keyword arguments are options of actors.client.Consumer. A password goes to the actors by the path of a file
    or the name of a variable (sasl_password_file, sasl_password_env), a key by its path. `ray_actor_options`
    are passed to Ray (num_cpus, resources, ...). A Ray must be running in this process.
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        group_id: str,
        handler: Callable[..., Any] | type,
        size: int | None = None,
        *,
        bootstrap_servers: str,
        autoscale: Autoscale | None = None,
        batch_format: BatchFormat = "record",
        max_batch_records: int = MAX_BATCH_RECORDS,
        batch_max_ms: int = 0,
        concurrency: int = 1,
        revoke_wait_ms: int = REVOKE_WAIT_MS,
        max_retries: int = 3,
        retry_backoff_ms: int = 100,
        dead_letter_topic: str | None = None,
        producer_options: dict[str, Any] | None = None,
        handler_args: Sequence[Any] = (),
        instance_prefix: str | None = None,
        ray_actor_options: dict[str, Any] | None = None,
        environment: Environment = REAL,
        **options: Any,
    ) -> None:
        if not ray.is_initialized():
            # Otherwise Ray would start one, or connect to any Ray that it finds on this machine.
            raise PoolError("this process is not connected to Ray: call ray.init(address=...) or Cluster.connect first")
        first_size = _first_size(size, autoscale)
        if batch_format not in ("record", "records", "pyarrow"):
            raise PoolError(f"batch_format must be 'record', 'records' or 'pyarrow', got {batch_format!r}")
        for name in DESERIALIZERS:
            if batch_format == "pyarrow" and options.get(name) is not None:
                raise PoolError(f"{name} does nothing with batch_format='pyarrow': its keys and values are bytes")
        if instance_prefix is not None and not 0 < len(instance_prefix) <= _PREFIX_MAX:
            raise PoolError(f"instance_prefix must have 1 to {_PREFIX_MAX} characters, got {len(instance_prefix)}")
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        self._spec = MemberSpec(
            topics=names,
            group_id=group_id,
            bootstrap_servers=bootstrap_servers,
            batch_format=batch_format,
            max_batch_records=max_batch_records,
            batch_max_ms=batch_max_ms,
            concurrency=concurrency,
            revoke_wait_ms=revoke_wait_ms,
            max_retries=max_retries,
            retry_backoff_ms=retry_backoff_ms,
            dead_letter_topic=dead_letter_topic,
            producer_options=dict(producer_options or {}),
            handler_args=tuple(handler_args),
            options=options,
        )
        if problem := self._spec.problem():
            raise PoolError(problem)
        refuse_secrets(options, "a pool's actors")
        pickled = {"handler_args": self._spec.handler_args, "producer_options": producer_options}
        for name, value in {"handler": handler, **pickled, **options}.items():
            _check_pickles(name, value)
        try:
            starter = ActorStarter(handler, ray_actor_options)
        except (TypeError, ValueError) as error:
            raise PoolError(f"ray_actor_options: {error}") from error
        self._monotonic = environment.clock.monotonic
        prefix = instance_prefix or f"{group_id[:_PREFIX_MAX]}-{new_uuid(environment.chance).hex[:8]}"
        self._slots = Supervision(
            self._spec,
            starter,
            self._remove_members,
            instance_prefix=prefix,
            max_poll_interval_ms=int(options.get("max_poll_interval_ms", 300_000)),
            monotonic=self._monotonic,
        )
        self._changed = self._slots.changed
        self._wall_ms = environment.clock.wall_ms
        self._size_changes: deque[SizeChange] = deque(maxlen=_CHANGES_MAX)
        self._resizing = threading.Lock()
        self._stopping = False
        self._change_size(first_size, "the pool begins")
        self._telling = Telling(prefix, group_id, self._slots.figures, Clusters(self._monotonic).tell)
        self._telling.begin()
        self._scaling = self._begin_scaling(autoscale) if autoscale is not None else None

    def _begin_scaling(self, policy: Autoscale) -> Scaling:
        load = PoolLoad(self._slots, GroupLoad(self._spec), self._monotonic)
        scaling = Scaling(policy, load, lambda size, why: self._change_size(size, why, policy.drain_timeout_s))
        scaling.start()
        return scaling

    # --- what users call ---

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self._spec.group_id

    def status(self) -> list[MemberStatus]:
        """The members by their last reports, which are about 0.2 s old at most."""
        with self._changed:
            return [slot.status() for slot in self._slots.all()]

    def handled(self) -> int:
        """How many records all members have handled since the pool began, with those that came again after a death."""
        return self._slots.totals()[0]

    def size_changes(self) -> list[SizeChange]:
        """When and why the size has changed, the last hundred times."""
        with self._changed:
            return list(self._size_changes)

    def resize(self, size: int) -> None:
        """Change the number of members: new ones join, surplus ones finish their record, commit and leave.

        Raises PoolError if the pool has been stopped, or is one that follows its load.
        """
        if self._scaling is not None:
            raise PoolError("the size of this pool follows its load: its bounds are those of `autoscale`")
        self._change_size(size, "resize was called")

    def _change_size(self, size: int, reason: str, drain_timeout_s: float = _DRAIN_SECONDS) -> None:
        """Returns when surplus members have gone; new ones are starting then."""
        with self._resizing:
            with self._changed:
                if self._stopping:
                    raise PoolError("the pool has been stopped")
                before = len(self._slots)
                surplus = self._slots.surplus(size)
                new = self._slots.add(size - before)
                if size != before:
                    self._size_changes.append(SizeChange(self._wall_ms(), before, size, reason))
            if size != before:
                text, of_group = "group %s: from %d to %d members: %s", about(group=self.group_id)
                log.info(text, self.group_id, before, size, reason, extra=of_group)
            self._slots.begin(new)
            self._slots.retire(surplus, drain_timeout_s)

    def wait(self, until: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Block until `until()` is true, which is asked after each report, or `timeout_s` has passed (returns False).

        Raises PoolError if a member has failed, or is about to.
        """
        deadline = None if timeout_s is None else self._monotonic() + timeout_s
        while True:
            self._check(self._slots.all())
            if until is not None and until():  # without the lock: it may wait for answers, which come after reports
                return True
            left = None if deadline is None else deadline - self._monotonic()
            if left is not None and left <= 0:
                return False
            with self._changed:
                self._changed.wait(0.5 if left is None else min(left, 0.5))

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every member's handler. Returns the results by slot.

        Waits for members that are starting. Raises PoolError if one has failed or ends before it answers, and what the
        method raises.
        """
        pickled = ray.cloudpickle.dumps(arguments)
        with self._changed:
            slots = self._slots.all()
            self._changed.wait_for(lambda: all(slot.linked_or_over for slot in slots))
            slots = [slot for slot in slots if not slot.retiring.is_set()]
            self._check(slots)
            links = [slot.link for slot in slots if slot.link is not None]
        answers = [link.call(method, pickled) for link in links]
        try:
            return [answer.result() for answer in answers]
        except MemberEndedError as error:
            raise PoolError(f"{method}: a member has ended before it answered; its successor begins anew") from error

    def _check(self, slots: Iterable[Slot]) -> None:
        """Raise PoolError if a member has failed, or is about to."""
        for slot in slots:
            if slot.failed:
                raise PoolError(f"member {slot.number} has stopped: {slot.report.error}")

    def stop(self, timeout_s: float = _DRAIN_SECONDS) -> None:
        """Have every member finish its record, commit and leave. Stopping twice is harmless."""
        if self._scaling is not None:
            self._scaling.end()
        self._telling.end()
        with self._changed:
            self._stopping = True
            slots = self._slots.all()
        self._slots.retire(slots, timeout_s)
        if self._scaling is not None:
            self._scaling.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _remove_members(self, instance_ids: list[str]) -> None:
        """Remove the members: static ones do not leave, and their partitions would wait for the session timeout."""
        try:
            settings = security_settings(self._spec.options)
            with Admin(bootstrap_servers=self._spec.bootstrap_servers, **settings) as admin:
                admin.remove_members_from_consumer_group(self.group_id, group_instance_ids=instance_ids)
        except (KafkaError, OSError) as error:
            log.warning(
                "group %s: members of a stopped pool stay until their session ends: %s",
                self.group_id,
                error,
                extra=about(group=self.group_id),
            )


def _first_size(size: int | None, autoscale: Autoscale | None) -> int:
    """The size to begin with. Raises PoolError if it makes no sense."""
    if autoscale is None:
        if size is None:
            raise PoolError("size or autoscale must be given")
        if size < 1:
            raise PoolError(f"size must be at least 1, got {size}")
        return size
    low, high = autoscale.min_size, autoscale.max_size
    if size is not None and not low <= size <= high:
        raise PoolError(f"size must be between min_size and max_size, {low} and {high}, got {size}")
    return max(low, 1) if size is None else size


def _check_pickles(name: str, value: Any) -> None:
    """Raise PoolError if the value cannot be sent to an actor."""
    try:
        ray.cloudpickle.dumps(value)
    except Exception as error:  # what it is made of decides what it raises
        raise PoolError(f"{name} cannot be pickled, so it cannot be sent to the actors: {error}") from error
