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

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import ray

from actors.client import Admin
from actors.members.autoscale import Autoscale
from actors.members.logs.gathering import Wanted
from actors.members.logs.journal import Cursor, MemberLine
from actors.members.member_link import MemberEndedError
from actors.members.pools.handler_member import MAX_BATCH_RECORDS, BatchFormat
from actors.members.pools.handling.spec import REVOKE_WAIT_MS
from actors.members.pools.members import DRAIN_SECONDS, PoolMembers
from actors.members.pools.plan import PoolError, PoolPlan, check_prefix, prefix_of
from actors.members.pools.slots import Slot
from actors.members.pools.status import MemberStatus, SizeChange
from actors.members.pools.supervision import PATIENCE, Patience
from actors.members.pools.topics_there import check_topics
from actors.runtime.environment import REAL, Environment, new_uuid

if TYPE_CHECKING:
    from actors.members.deployment.deployed import DeployedPool

__all__ = ["ConsumerPool", "PoolError", "SizeChange"]


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

    The brokers are asked for the topics first. Raises PoolError within seconds if none answers, or if a topic, or
    `dead_letter_topic`, does not exist; with `create_topic` missing ones are created as the brokers' settings say. If
    something keeps members from their brokers later, it is the `error` of their `status`, and is logged. `ask` makes
    the Admin that asks.

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
        create_topic: bool = False,
        environment: Environment = REAL,
        ask: Callable[..., Admin] = Admin,
        patience: Patience = PATIENCE,
        **options: Any,
    ) -> None:
        if not ray.is_initialized():
            # Otherwise Ray would start one, or connect to any Ray that it finds on this machine.
            raise PoolError("this process is not connected to Ray: call ray.init(address=...) or Cluster.connect first")
        if instance_prefix is not None:
            check_prefix(instance_prefix)
        plan = PoolPlan.of(
            topics,
            group_id,
            handler,
            size,
            bootstrap_servers=bootstrap_servers,
            autoscale=autoscale,
            batch_format=batch_format,
            max_batch_records=max_batch_records,
            batch_max_ms=batch_max_ms,
            concurrency=concurrency,
            revoke_wait_ms=revoke_wait_ms,
            max_retries=max_retries,
            retry_backoff_ms=retry_backoff_ms,
            dead_letter_topic=dead_letter_topic,
            producer_options=producer_options,
            handler_args=handler_args,
            ray_actor_options=ray_actor_options,
            **options,
        )
        version = plan.version()
        check_topics(plan.spec, create=create_topic, admin=ask)
        self._group_id = group_id
        self._monotonic = environment.clock.monotonic
        prefix = instance_prefix or f"{prefix_of(group_id)}-{new_uuid(environment.chance).hex[:8]}"
        self._members = PoolMembers(version, prefix, environment, patience=patience)
        self._slots = self._members.slots
        self._changed = self._slots.changed
        self._members.change_size(plan.first_size, "the pool begins")
        if plan.autoscale is not None:
            self._members.follow_load(plan.autoscale)

    # --- pools that outlive their program ---

    @classmethod
    def deploy(
        cls,
        name: str,
        topics: str | Sequence[str],
        group_id: str,
        handler: Callable[..., Any] | type,
        size: int | None = None,
        *,
        bootstrap_servers: str,
        autoscale: Autoscale | None = None,
        **options: Any,
    ) -> DeployedPool:
        """Have a pool that outlives this program: a supervisor on this Ray looks after its members.

        Its description and its handler are kept in the topic `__coterie_pools` of these brokers. If there is a pool of
        this name, this is its next version, and its members are replaced one at a time; if it does not work, they go
        back to the version before. `options` are the further arguments of ConsumerPool, without `instance_prefix`:
        members are called NAME-0, NAME-1, ... With `setup_overlap=False` no member of this version is set up while the
        one before it works. Returns when the supervisor knows the version. Raises PoolError, ConfigurationError and
        KafkaError.
        """
        from actors.members.deployment.deploy import deploy  # whoever has a pool of his own needs none of it

        return deploy(
            name,
            topics,
            group_id,
            handler,
            size,
            bootstrap_servers=bootstrap_servers,
            autoscale=autoscale,
            **options,
        )

    @staticmethod
    def attach(name: str, *, bootstrap_servers: str, **security: Any) -> DeployedPool:
        """The pool that was deployed under this name. Raises PoolError if there is none, and KafkaError.

        `security` are settings of a client that are about logins and TLS.
        """
        from actors.members.deployment.deployed import attach

        return attach(name, bootstrap_servers, **security)

    # --- what users call ---

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self._group_id

    def status(self) -> list[MemberStatus]:
        """The members by their last reports, which are about 0.2 s old at most."""
        with self._changed:
            return [slot.status() for slot in self._slots.all()]

    def handled(self) -> int:
        """The number of records that members are done with since the pool began: handled, or set aside as dead letters.

        Each counts once. When a member's process dies, the records that it had not committed do not count any more,
        because they come again; until then they do.
        """
        return self._slots.done()

    def size_changes(self) -> list[SizeChange]:
        """The last hundred changes of size, the oldest first."""
        return self._members.size_changes

    def logs(
        self, slot: int | None = None, *, tail: int = 100, since_ms: int = 0, after: Cursor | None = None
    ) -> list[MemberLine]:
        """The last `tail` lines that the members of all slots, or of one, have printed and logged, the oldest first.

        Only lines from `since_ms` (Unix milliseconds) on, and, with a cursor (`advanced`), only those behind it.
        Members that live are asked. Of a member that was killed there is what was asked for before.
        """
        return self._members.logs(Wanted(slot, tail, since_ms, after or {}))

    def resize(self, size: int) -> None:
        """Change the number of members: new ones join, surplus ones finish their record, commit and leave.

        Raises PoolError if the pool has been stopped, or is one that follows its load.
        """
        if self._members.follows_load:
            raise PoolError("the size of this pool follows its load: its bounds are those of `autoscale`")
        self._members.change_size(size, "resize was called")

    def wait(self, until: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Block until `until()` is true, which is asked after each report, or `timeout_s` has passed (returns False).

        Raises PoolError if a member has failed, or is about to, and if the Ray that its members need is away.
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
            self._changed.wait_for(lambda: all(slot.linked_or_over for slot in slots) or self._members.ray_away())
            slots = [slot for slot in slots if not slot.retired]
            self._check(slots)
            links = [slot.link for slot in slots if slot.link is not None]
        answers = [link.call(method, pickled) for link in links]
        try:
            return [answer.result() for answer in answers]
        except MemberEndedError:
            raise PoolError(f"{method}: a member has ended before it answered; its successor begins anew") from None

    def _check(self, slots: Iterable[Slot]) -> None:
        """Raise PoolError if a member has failed, or is about to, or no member can be started."""
        for slot in slots:
            if slot.failed:
                raise PoolError(f"member {slot.number} has stopped: {slot.report.error}")
        if away := self._members.ray_away():
            raise PoolError(away)

    def stop(self, timeout_s: float = DRAIN_SECONDS) -> None:
        """Have every member finish its record, commit and leave. Stopping twice is harmless."""
        self._members.stop(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
