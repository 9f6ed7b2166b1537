"""The loop of a pool's member: it polls, has records handled by the user's handler, and commits what was handled.

At least once: an offset is committed after the handler has returned, and before its partition is given up. The
handling itself is in the room `handling`; Ray and supervision are pool.py's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from actors.client import Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from actors.client.by_default import by_default
from actors.links.member import MemberReport
from actors.links.member_counts import Committing
from actors.links.member_deaths import Committed, InHand
from actors.members.log_fields import about_member
from actors.members.pools.handling.beginnings import Beginnings
from actors.members.pools.handling.commits import REBALANCE_SECONDS, Commits
from actors.members.pools.handling.delivery import Delivery
from actors.members.pools.handling.doubts import Doubts, Trial
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.hands import Tasks, Threads
from actors.members.pools.handling.in_hand import Declared
from actors.members.pools.handling.lanes import BatchLanes, KeyLanes
from actors.members.pools.handling.order import Order, Parts
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.running import Running
from actors.members.pools.handling.serial import Serial
from actors.members.pools.handling.side_by_side import SideBySide
from actors.members.pools.handling.spec import (
    DESERIALIZERS,
    MAX_BATCH_RECORDS,
    BatchFormat,
    HandlerFailedError,
    MemberSpec,
    OutputError,
)
from actors.members.pools.handling.topics import PolledTopics
from actors.members.pools.handling.values import Values
from actors.members.pools.handling.work import by_partition
from actors.runtime.environment import REAL, Environment
from actors.runtime.process import error_text

__all__ = [
    "DESERIALIZERS",
    "MAX_BATCH_RECORDS",
    "BatchFormat",
    "HandlerFailedError",
    "MemberLoop",
    "MemberSpec",
    "OutputError",
]

log = logging.getLogger(__name__)

READY = "Ready"
"""The state of a member that waits to join. Its pool knows it, and nobody else."""
_CLOSE_MS = 2_000  # all that has to be said to the group is said by then: static members do not leave


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: MemberLoop) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._member.look()
        self._member.order.gain(assigned)
        self._member.beginnings.assigned(assigned)
        self._member.handler.hook("on_assigned", assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._member.look()
        self._member.order.give_up(revoked)
        self._member.commits.now(revoked)
        self._member.handler.hook("on_revoked", revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._member.look()
        self._member.order.lose(lost)
        self._member.commits.forget(lost)
        self._member.handler.hook("on_revoked", lost)

    def on_partitions_recreated(self, recreated: list[TopicPartition]) -> None:
        self._member.doubts.recreated(recreated)
        super().on_partitions_recreated(recreated)


class MemberLoop:
    """One member of a group, and its handler. `run` takes a thread; other threads call `report` and `stop`.

    The pool that reads its reports sends its heartbeats while the handler keeps the interpreter's lock (`watch`). So
    it has to know of each membership before the handler goes on: `run` has it told. A rebalance may keep the
    last commit for `rebalance_s`.
    """

    def __init__(
        self,
        spec: MemberSpec,
        handler: Any,
        *,
        make_consumer: Callable[..., Any] = Consumer,
        make_producer: Callable[..., Any] = Producer,
        sleep: Callable[[float], Any] | None = None,
        environment: Environment = REAL,
        rebalance_s: float = REBALANCE_SECONDS,
    ) -> None:
        self.spec = spec
        monotonic = environment.clock.monotonic
        self._running = Running(monotonic)
        self.handler = Handler(handler, spec.handler_args, self._running.hook)
        self._stop = threading.Event()
        self._may_join = threading.Event()
        self._may_join.set()
        self._state = "Starting"
        self._error: BaseException | None = None
        self._seen = MemberReport()
        self._tell: Callable[[], None] = lambda: None
        options: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "allow_auto_create_topics": False,  # or a topic that is deleted would be there again at once
            **by_default(spec.options, {"partition_assignment_strategy": ["cooperative-sticky"]}),
        }
        # Deserialized here and not by the consumer: a dead letter needs the bytes, and errors have to be retried.
        values = Values({name: options.pop(name, None) for name in DESERIALIZERS})
        self.consumer = make_consumer(
            environment=environment,
            bootstrap_servers=spec.bootstrap_servers,
            group_id=spec.group_id,
            enable_auto_commit=False,
            **options,
        )
        self.beginnings = Beginnings(spec.group_id, self.consumer, at_end=options["auto_offset_reset"] == "latest")
        self._progress = Progress(monotonic)
        interval_s = spec.auto_commit_interval_ms / 1000
        self.topics = PolledTopics(self.consumer)
        self.doubts = Doubts(spec.notes, self.topics.id_of)
        self.commits = Commits(
            spec.group_id, self.consumer, self._progress, monotonic, interval_s, self.doubts.committed, rebalance_s
        )
        self.declared = Declared(monotonic, self._progress, self.topics.id_of)
        self._writer = Writer(spec, partial(make_producer, environment=environment))
        delivery = Delivery(spec, self.handler, values, self._writer, self._running, self._progress, sleep)
        self.order = self._ordered(delivery, monotonic)

    def _ordered(self, delivery: Delivery, monotonic: Callable[[], float]) -> Order:
        spec, progress, declared = self.spec, self._progress, self.declared
        trial = Trial(self.doubts, declared, delivery, self.commits)
        if not spec.side_by_side:
            return Serial(spec, self.consumer, delivery, progress, self.commits, declared, trial, self._stop)
        lanes = (
            KeyLanes(spec.concurrency, progress.begin)
            if spec.batch_format == "record"
            else BatchLanes(spec.max_batch_records, spec.batch_max_ms / 1000, progress.begin)
        )
        hands = Tasks(delivery) if self.handler.is_async else Threads(delivery, spec.concurrency)
        return SideBySide(spec, self.consumer, lanes, hands, progress, self.commits, declared, trial, monotonic)

    # --- the loop ---

    def run(self, tell: Callable[[], None] = lambda: None) -> None:
        """Consume until `stop`, or until a record cannot be handled; then `report` has the error.

        `tell` is called with a membership that is new, and returns when the pool has a report of it.
        """
        self._tell = tell
        state = "Stopped"
        try:
            self.handler.set_up()
            self._await_its_turn()
            self.consumer.subscribe(list(self.spec.topics), listener=_Listener(self))
            self._state = "Running"
            while not self._stop.is_set():
                self._step()
        except BaseException as error:  # a handler may call sys.exit, which has to be reported, too
            self._error = error
            self._state, state = "Failing", "Failed"
            log.exception("member of group %s stops", self.spec.group_id, extra=self._about())
        finally:
            self._close()
            self._state = state  # only now: who sees a member that has failed takes its place in the group away

    def _await_its_turn(self) -> None:
        if not self._may_join.is_set():
            self._state = READY
            self._may_join.wait()

    def _step(self) -> None:
        parts = self._poll(self.order.poll_ms())
        self.look()
        self.beginnings.begin()
        self.topics.polled(partition for partition, _ in parts)
        self.order.take(parts)
        self.commits.later()
        if self._progress.failure is not None:
            raise self._progress.failure

    def _poll(self, timeout_ms: int) -> Parts:
        if self.spec.batch_format != "pyarrow":
            return list(self.consumer.poll(timeout_ms=timeout_ms).items())
        batch = self.consumer.poll_arrow(timeout_ms=timeout_ms, headers=self.spec.dead_letter_topic is not None)
        return by_partition(batch)

    def look(self) -> None:
        """Note for `report` what the membership is, because other threads must not use the consumer."""
        group = self.consumer.group_metadata()
        before, self._seen = (
            self._seen,
            MemberReport(
                member_id=group.member_id,
                generation_id=group.generation_id,
                assignment=tuple(sorted((p.topic, p.partition) for p in self.consumer.assignment())),
            ),
        )
        if (before.member_id, before.generation_id) != (group.member_id, group.generation_id):
            self._tell()

    def _close(self) -> None:
        # Closing the consumer gives up the partitions. The handler is told of that, so it is closed after it.
        close = partial(self.consumer.close, timeout_ms=_CLOSE_MS)
        steps = (self.order.end, self.commits.last, close, self.handler.tear_down, self._writer.close)
        for step in steps:  # each is owed, whatever becomes of the others
            try:
                step()
            except Exception:  # the steps call the user's handler, among others
                log.exception("closing a member of group %s", self.spec.group_id, extra=self._about())

    def _about(self) -> Mapping[str, object]:
        return about_member(self.consumer.group_metadata())

    # --- for other threads ---

    def report_to(self, tell: Callable[[InHand | Committed | Committing], None]) -> None:
        """Have this tell the pool, from now on, which records are in hand, and which do not come again."""
        self.declared.report_to(tell)
        self.commits.report_to(tell)
        self.doubts.report_to(tell)

    def wait_to_join(self) -> None:
        """Have `run` set the handler up, and join no group before `join`. The state is READY meanwhile."""
        self._may_join.clear()

    def join(self) -> None:
        """Have `run` join the group now if it waits to."""
        self._may_join.set()

    def stop(self) -> None:
        """Have `run` end after what is being handled."""
        self._stop.set()
        self._may_join.set()
        self.order.wind_down()

    def _what_is_wrong(self) -> str | None:
        if self._error is not None:
            return error_text(self._error)
        return self.consumer.hindrance() if self._state == "Running" else None

    def report(self) -> MemberReport:
        """The present state of this member."""
        handling_ms, in_hook = self._running.longest()
        return replace(
            self._seen,
            state=self._state,
            error=self._what_is_wrong(),
            handled=self._progress.handled,
            dead_letters=self._progress.dead_letters,
            handling_ms=handling_ms,
            in_hook=in_hook,
            busy_ms=self._running.busy_ms(),
            again=self._progress.again,
            committing=self._progress.committing,
        )
