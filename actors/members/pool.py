"""ConsumerActor and ConsumerPool: a group of Ray actors that divide topics among themselves and run a handler.

    def handle(record):
        print(record.value)

    with ConsumerPool(["orders"], "billing", handle, size=3, bootstrap_servers=servers) as pool:
        pool.wait()

Each actor is one member. The pool has a connection to each of them. When one ends, the actor is dead, and a new one
takes its place under the same `group.instance.id`, so that the other members notice nothing. Only what was committed
survives a death; records that were handled after the last commit come again.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import ray

from actors import CoterieError
from actors.client import Admin
from actors.client.config import security_settings
from actors.client.errors import KafkaError
from actors.client.net.security import refuse_secrets
from actors.links.member import MemberAddress, MemberReport
from actors.links.member_process import kind_on_node
from actors.links.member_tls import can_encrypt
from actors.members.handler_member import DESERIALIZERS, MAX_BATCH_RECORDS, BatchFormat, MemberLoop, MemberSpec
from actors.members.handling.ending import run_until_terminated
from actors.members.handling.spec import REVOKE_WAIT_MS
from actors.members.member_link import MemberClient, MemberEndedError, MemberServer
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.logs import TEXT, about, formatter
from actors.runtime.process import check_code_version, code_version, last_line
from actors.security.acl import is_loopback

log = logging.getLogger(__name__)

_START_SECONDS = 120.0
_SLOW_RESTART_SECONDS = 30.0
_PREFIX_MAX = 230  # of the 249 characters an instance id may have
_FAILED = ("Failing", "Failed")
_ENDED = ("Stopped", "Failed")
_STARTS_MAX = 4  # in a row that fail, until the slot is given up


class PoolError(CoterieError, RuntimeError):
    """A pool cannot be made, or cannot go on; the text says what is wrong, or which member failed and why."""


@ray.remote(num_cpus=0, max_restarts=0)
class ConsumerActor:
    """The actor of one member. Its pool stops it, calls it and hears that it lives over a connection (`member_link`).

    Only what it has committed survives its death.
    """

    def __init__(self, spec: MemberSpec, handler: Any, version: str) -> None:
        check_code_version(version)
        told = logging.StreamHandler()
        told.setFormatter(formatter(TEXT, {"role": "member", "group": spec.group_id}))
        logging.basicConfig(level=logging.WARNING, handlers=[told])
        where = kind_on_node("pool", ray.get_runtime_context().get_node_id())
        options = {"group_member_process": where, **spec.options}
        self._member = MemberLoop(replace(spec, options=options), handler)

    def listen(self, encrypt: bool) -> MemberAddress:
        """Listen for the pool, which can encrypt or cannot; where."""
        host, secret, member = ray.util.get_node_ip_address(), os.urandom(16), self._member
        encrypted = encrypt and can_encrypt() and not is_loopback(host)
        made = MemberServer(host, secret, member.handler.instance, member.report, member.stop, encrypted=encrypted)
        self._link = made
        node_id = ray.get_runtime_context().get_node_id()
        return MemberAddress(host, made.port, os.getpid(), node_id, secret, encrypted)

    def serve(self) -> None:
        """Consume until the pool has the member stop, or a record cannot be handled.

        The main thread waits for the member's own, and not for Ray (`run_in_main_thread` says why).
        """
        terminated = run_until_terminated(self._member.run, self._member.stop)
        self._link.ended()
        if terminated:  # the pool sees the connection end, and starts a successor under the same name
            sys.exit(0)


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """The state of one slot of a pool. `handled` counts the records of all actors that the slot has had."""

    slot: int
    pid: int
    node_id: str
    state: str
    error: str | None
    member_id: str
    generation_id: int
    assignment: tuple[tuple[str, int], ...]
    handled: int
    dead_letters: int
    restarts: int


@dataclass(eq=False)
class _Slot:
    """A place in the pool, and the actor that has it now."""

    number: int
    instance_id: str
    actor: Any = None
    link: MemberClient | None = None
    pid: int = 0
    node_id: str = ""
    report: MemberReport = field(default_factory=MemberReport)
    handled_before: int = 0
    dead_letters_before: int = 0
    restarts: int = -1
    started_at: float = 0.0
    retiring: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


class ConsumerPool:
    """`size` consumer actors in one group, supervised.

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
        size: int,
        *,
        bootstrap_servers: str,
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
        if size < 1:
            raise PoolError(f"size must be at least 1, got {size}")
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
        self._handler = handler
        try:
            self._actor_class = ConsumerActor.options(  # type: ignore[attr-defined]
                **{"scheduling_strategy": "SPREAD", **(ray_actor_options or {})}
            )
        except (TypeError, ValueError) as error:
            raise PoolError(f"ray_actor_options: {error}") from error
        self._monotonic = environment.clock.monotonic
        self._max_poll_interval_ms = int(options.get("max_poll_interval_ms", 300_000))
        self._instance_prefix = instance_prefix or f"{group_id[:_PREFIX_MAX]}-{new_uuid(environment.chance).hex[:8]}"
        self._slots: dict[int, _Slot] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._stopping = False
        self.resize(size)

    # --- what users call ---

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self._spec.group_id

    def status(self) -> list[MemberStatus]:
        """The members by their last reports, which are about 0.2 s old at most."""
        with self._lock:
            return [_status(slot) for slot in self._slots.values()]

    def handled(self) -> int:
        """How many records all members have handled since the pool began, with those that came again after a death."""
        return sum(status.handled for status in self.status())

    def resize(self, size: int) -> None:
        """Change the number of members: new ones join, surplus ones finish their record, commit and leave."""
        with self._lock:
            if self._stopping:
                raise PoolError("the pool has been stopped")
            surplus = sorted(self._slots)[size:]
            retiring = [self._slots[number] for number in surplus]
            new = []
            for _ in range(size - len(self._slots)):
                number = next(n for n in itertools.count() if n not in self._slots)
                slot = self._slots[number] = _Slot(number, f"{self._instance_prefix}-{number}")
                new.append(slot)
        for slot in new:
            slot.thread = threading.Thread(target=self._supervise, args=(slot,), daemon=True)
            slot.thread.start()
        self._retire(retiring, 30.0)

    def wait(self, until: Callable[[], bool] | None = None, timeout_s: float | None = None) -> bool:
        """Block until `until()` is true, which is asked after each report, or `timeout_s` has passed (returns False).

        Raises PoolError if a member has failed, or is about to.
        """
        deadline = None if timeout_s is None else self._monotonic() + timeout_s
        while True:
            with self._lock:
                self._check(self._slots.values())
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
            slots = list(self._slots.values())
            self._changed.wait_for(lambda: all(map(_linked_or_over, slots)))
            slots = [slot for slot in slots if not slot.retiring.is_set()]
            self._check(slots)
            links = [slot.link for slot in slots if slot.link is not None]
        answers = [link.call(method, pickled) for link in links]
        try:
            return [answer.result() for answer in answers]
        except MemberEndedError as error:
            raise PoolError(f"{method}: a member has ended before it answered; its successor begins anew") from error

    def _check(self, slots: Iterable[_Slot]) -> None:
        """Raise PoolError if a member has failed, or is about to."""
        for slot in slots:
            if slot.report.state in _FAILED:
                raise PoolError(f"member {slot.number} has stopped: {slot.report.error}")

    def stop(self, timeout_s: float = 30.0) -> None:
        """Have every member finish its record, commit and leave. Stopping twice is harmless."""
        with self._lock:
            self._stopping = True
            slots = list(self._slots.values())
        self._retire(slots, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- supervision ---

    def _supervise(self, slot: _Slot) -> None:
        """Run in a thread for each slot: start an actor, read its reports until the socket ends, start the next."""
        pause = 0.0
        failed_starts = 0
        while not slot.retiring.is_set():
            slot.retiring.wait(pause)
            try:
                link = self._start(slot)
            except Exception as error:  # whatever it is, the slot must say so: nobody looks at this thread
                _kill(slot.actor)  # it may well live, and would be the same static member as the next one
                log.warning(
                    "slot %d of group %s could not be started: %s",
                    slot.number,
                    self.group_id,
                    error,
                    extra=about(group=self.group_id),
                )
                pause = min(max(2 * pause, 0.5), _SLOW_RESTART_SECONDS)
                failed_starts += 1
                given_up = failed_starts >= _STARTS_MAX
                with self._changed:
                    of_ray = isinstance(error, ray.exceptions.RayError)
                    reason = last_line(error) if of_ray else f"{type(error).__name__}: {error}"
                    slot.report = MemberReport("Failed" if given_up else "Starting", reason)
                    self._changed.notify_all()
                if given_up:  # a handler that cannot even be made, most likely: `wait` says so
                    return
                continue
            failed_starts = 0
            try:
                with contextlib.closing(link):
                    self._read(slot, link)
            finally:
                with self._changed:
                    slot.link = None  # `call` waits for the successor
            if slot.report.state == "Failed" or slot.retiring.is_set():
                return
            log.warning(
                "slot %d of group %s: actor with pid %d has died",
                slot.number,
                self.group_id,
                slot.pid,
                extra=about(group=self.group_id, pid=slot.pid),
            )
            _kill(slot.actor)
            lived = self._monotonic() - slot.started_at
            pause = 0.0 if lived > 5 else min(max(2 * pause, 0.1), _SLOW_RESTART_SECONDS)

    def _start(self, slot: _Slot) -> MemberClient:
        spec = self._spec
        # The group's place is the slot's: a replacement is the same static member, so nothing is rebalanced.
        with self._lock:
            size = len(self._slots)
        options = {
            "group_instance_id": slot.instance_id,
            "client_id": f"coterie-{slot.number}",
            "group_expected_members": size,
            **spec.options,
        }
        member = replace(spec, options=options)
        with self._lock:
            if slot.retiring.is_set():
                raise ConnectionError("the pool does not want this member any more")
            slot.handled_before += slot.report.handled
            slot.dead_letters_before += slot.report.dead_letters
            slot.report = MemberReport()
            slot.link = None
            actor = slot.actor = self._actor_class.remote(member, self._handler, code_version())
            slot.restarts += 1
            slot.started_at = self._monotonic()
        listening = actor.listen.remote(can_encrypt())
        actor.serve.remote()
        where: MemberAddress = ray.get(listening, timeout=_START_SECONDS)
        link = MemberClient.connect(where.host, where.port, where.secret, encrypted=where.encrypted)
        with self._changed:
            slot.pid, slot.node_id, slot.link = where.pid, where.node_id, link
            self._changed.notify_all()
        if slot.retiring.is_set():
            link.stop()
        return link

    def _read(self, slot: _Slot, link: MemberClient) -> None:
        removed = False
        for report in link.reports():
            with self._changed:
                slot.report = report
                self._changed.notify_all()
            if report.state == "Failed" and not removed:
                # Nobody comes back under this name: the others would wait for it as long as its session lasts.
                self._remove_members([slot.instance_id])
                removed = True
            if report.state in _ENDED and slot.retiring.is_set():
                return
            if report.handling_ms > self._max_poll_interval_ms:
                log.warning(
                    "slot %d of group %s: the handler has run for %d ms, longer than max_poll_interval_ms=%d: replaced",
                    slot.number,
                    self.group_id,
                    report.handling_ms,
                    self._max_poll_interval_ms,
                )
                return

    def _retire(self, slots: list[_Slot], timeout_s: float) -> None:
        with self._lock:  # so that no actor is started that nobody would end
            for slot in slots:
                slot.retiring.set()
            links = [slot.link for slot in slots if slot.link is not None]
        for link in links:
            link.stop()
        deadline = self._monotonic() + timeout_s
        for slot in slots:
            if slot.thread is not None:
                slot.thread.join(max(0.0, deadline - self._monotonic()))
        for slot in slots:
            if slot.actor is not None:
                ray.kill(slot.actor)
        if slots:
            self._remove_members([slot.instance_id for slot in slots])
        with self._changed:
            for slot in slots:
                self._slots.pop(slot.number, None)
            self._changed.notify_all()

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


def _kill(actor: Any) -> None:
    """Kill an actor, if there is one. If that fails, starting the next one fails, too, and says why."""
    if actor is not None:
        with contextlib.suppress(Exception):
            ray.kill(actor)


def _linked_or_over(slot: _Slot) -> bool:
    return slot.link is not None or slot.retiring.is_set() or slot.report.state in _FAILED


def _check_pickles(name: str, value: Any) -> None:
    """Raise PoolError if the value cannot be sent to an actor."""
    try:
        ray.cloudpickle.dumps(value)
    except Exception as error:  # what it is made of decides what it raises
        raise PoolError(f"{name} cannot be pickled, so it cannot be sent to the actors: {error}") from error


def _status(slot: _Slot) -> MemberStatus:
    report = slot.report
    return MemberStatus(
        slot=slot.number,
        pid=slot.pid,
        node_id=slot.node_id,
        state=report.state,
        error=report.error,
        member_id=report.member_id,
        generation_id=report.generation_id,
        assignment=report.assignment,
        handled=slot.handled_before + report.handled,
        dead_letters=slot.dead_letters_before + report.dead_letters,
        restarts=max(slot.restarts, 0),
    )
