"""A member of a group whose records somebody else reads: Spark's executors, Ray Data's tasks.

The member holds the membership, says from which offset each of its partitions goes on, and commits what was done with
a batch. It reads no record itself. The course of a batch:

    begin()                from now on partitions that are taken away wait for the batch, up to `revoke_wait_ms`
      -> Holding             the partitions held, each with its position and its fencing token
    finish(done)           commit {(topic, partition): (next offset, fencing token)}
      -> committed           those for which the commit counted

**The fence.** Every assignment of a partition has a new fencing token, which holds as long as the member has the
partition without a break. Only what was begun and finished under one token is committed, and the coordinator checks
member and generation of each commit besides. A new generation does not change the token: with cooperative rebalancing a
partition that stays was nobody else's in between.

No Ray is here, and no Spark.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from actors.client import Consumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from actors.client.errors import (
    CommitFailedError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    WakeupError,
)
from actors.members.log_fields import about_member
from actors.members.ranges.commands import Commands
from actors.members.ranges.group import Done, Held, Holding, RangeMemberSpec, member_settings
from actors.members.ranges.life import RETRIES, Event, Failure, Moment, Phase, Poll, RangeLife, Retry, Rule
from actors.members.ranges.positions import find, in_deleted_topics
from actors.runtime.environment import REAL, Environment, new_uuid

log = logging.getLogger(__name__)
T = TypeVar("T")

_POLL_MS = 250
_FINISH_SECONDS = 60.0
# So long a member that is stopped goes on with a rebalance that keeps it from the commit of a batch.
_REBALANCE_SECONDS = 10.0
_LAST_COMMIT_MS = 2000  # so long it waits then for the answer to a commit
_RETRY_SECONDS = 0.1
_TOPICS_SECONDS = 1.0  # members that begin batches check their topics no more often than this


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: RangeMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._member.assigned(assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._member.revoked(revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._member.let_go(lost)

    def on_partitions_recreated(self, recreated: list[TopicPartition]) -> None:
        self._member.recreated(recreated)


class RangeMember:
    """A range member, as the module's docstring says. It has a thread; its methods may be called from any other.

    A commit that fails is tried again for `finish_s`, and for as long as the group rebalances: for `rebalance_s` if the
    member is stopped meanwhile. Raises ConfigurationError for options the client does not take.
    """

    def __init__(
        self,
        spec: RangeMemberSpec,
        *,
        make_consumer: Callable[..., Any] = Consumer,
        environment: Environment = REAL,
        finish_s: float = _FINISH_SECONDS,
        rebalance_s: float = _REBALANCE_SECONDS,
    ) -> None:
        self._spec = spec
        self._finish_s, self._rebalance_s = finish_s, rebalance_s
        self._consumer = make_consumer(environment=environment, **member_settings(spec))
        self._incarnation = new_uuid(environment.chance).hex[:12]
        self._monotonic = environment.clock.monotonic
        self._tokens = 0
        self._turn = threading.Condition()
        self._commands = Commands()
        self._life = RangeLife()
        self._poll_state = Poll.AWAY
        self._stopped_at: float | None = None
        self._in_callback = False
        self._batch_since = 0.0
        self._held: dict[TopicPartition, Held] = {}
        self._unresolved: set[TopicPartition] = set()
        self._recreated: set[TopicPartition] = set()  # unresolved ones, which were held in a topic that was deleted
        self._looked_s = -_TOPICS_SECONDS
        self._due: dict[TopicPartition, tuple[int, str]] = {}
        self._counted: set[TopicPartition] = set()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"coterie-member-{spec.group_id}", daemon=True)
        self._thread.start()

    # --- for other threads ----------------------------------------------------------------------------------------

    def holding(self) -> Holding:
        """The partitions that this member has now. Raises the error that has ended the member, if one has."""
        return self._ask(self._look)

    def begin(self) -> Holding:
        """Begin a batch of the partitions that are held. Raises the error that has ended the member, if one has."""
        return self._ask(self._begin)

    def finish(self, done: Done) -> list[tuple[str, int]]:
        """End the batch: commit these next offsets, each under its token; an empty mapping commits nothing.

        Returns the partitions for which the commit counted. Raises KafkaError when the coordinator cannot be reached.
        """
        return self._ask(lambda: self._finish(done), owed=True)

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Leave. Returns whether that was done in time. A static member stays in its group.

        A `finish` under way is waited for while a rebalance holds it up; a batch without one is not committed.
        """
        with self._turn:
            first = not self.stopping
            self._ask_to_stop()
            self._wake()
            if first and self._poll_state is Poll.AWAY:  # a request, perhaps to a broker that is away
                self._consumer.wakeup()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _ask(self, act: Callable[[], T], *, owed: bool = False) -> T:
        with self._turn:
            if self._error is not None:
                raise self._error
            if self.stopping:
                raise RuntimeError(f"this member of group {self._spec.group_id} has been stopped")
            answer = self._commands.add(act, owed=owed)
            self._wake()
        found: T = answer.result()
        return found

    def _ask_to_stop(self) -> None:
        """Stop, if it is not asked yet. Called under the lock."""
        if self._stopped_at is None:
            self._stopped_at = self._monotonic()

    def _wake(self) -> None:
        """Wake the member's thread, which has something to do. Called under the lock."""
        if self._poll_state is Poll.POLLING:
            self._poll_state = Poll.WOKEN
            self._consumer.wakeup()
        self._turn.notify_all()

    # --- as others see it -----------------------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """True once it has been told to stop."""
        return self._stopped_at is not None

    @property
    def busy(self) -> bool:
        """True while something that was asked for waits for the member's thread."""
        return bool(self._commands)

    @property
    def committing(self) -> bool:
        """True while a commit is to be made."""
        return bool(self._due)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._subscribe()
            while not self.stopping:
                self._step()
            while self._commands.owed:
                self._commands.run_one()
        except BaseException as error:  # a listener of the user's may raise anything; whoever waits has to be told
            log.warning(
                "a member of group %s has ended: %s",
                self._spec.group_id,
                error,
                extra=about_member(self._consumer.group_metadata()),
            )
            with self._turn:
                self._error = error
        finally:
            with self._turn:
                self._ask_to_stop()
                self._life.hear(Event.END)
            with contextlib.suppress(Exception):  # the first error is the one that is told
                self._consumer.close(autocommit=False)
            with self._turn:
                ended = self._error or RuntimeError(f"this member of group {self._spec.group_id} has been stopped")
                self._commands.refuse(ended)

    def _step(self) -> None:
        while self._commands:
            self._commands.run_one()
        if self._overdue() and self._life.hear(Event.OVERDUE) is Rule.LEAVE:
            self._leave()
        if self._life.hear(Event.STEP) is Rule.REST:
            with self._turn:
                if not self._commands and not self.stopping:
                    self._turn.wait()
            return
        self._poll(_POLL_MS)
        self._resolve()

    def _subscribe(self) -> None:
        self._consumer.subscribe(list(self._spec.topics), pattern=self._spec.pattern, listener=_Listener(self))

    def _poll(self, timeout_ms: int) -> None:
        """Poll to take part in the group. Every partition is paused, so that no record is read."""
        with self._turn:
            if (self._commands or self.stopping) and not self._due:
                timeout_ms = 0
            self._poll_state = Poll.POLLING
        raised = False
        try:
            self._consumer.poll(timeout_ms)
        except WakeupError:
            raised = True
        except RetriableError as error:
            log.info("group %s: %s", self._spec.group_id, error, extra=about_member(self._consumer.group_metadata()))
            self._pause()
        with self._turn:
            unheard = self._poll_state is Poll.WOKEN and not raised
            self._poll_state = Poll.AWAY
        if unheard:  # or it would end the next call, which may be a commit
            with contextlib.suppress(WakeupError):
                self._consumer.poll(0)

    def _pause(self) -> None:
        with self._turn:
            if self._due or not self.stopping:
                self._turn.wait(_RETRY_SECONDS)

    # --- positions ------------------------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Called by the listener: these partitions are new."""
        added = list(partitions)
        self._consumer.pause(*added)
        self._unresolved.update(added)

    def _resolve(self) -> None:
        """Find out where new partitions go on, as `range_positions.find` does."""
        if not self._unresolved:
            return
        try:
            found = find(self._consumer, self._spec, self._unresolved, self._recreated)
        except (WakeupError, RebalanceInProgressError, CommitFailedError, RetriableError) as error:
            where = about_member(self._consumer.group_metadata())
            log.info(
                "group %s: where its partitions go on is not known yet: %s", self._spec.group_id, error, extra=where
            )
            return
        for tp, place in found.items():
            if tp in self._unresolved:
                self._tokens += 1
                token = f"{self._incarnation}-{self._tokens}"
                self._held[tp] = Held(tp.topic, tp.partition, place.offset, token, place.topic_id)
        self._unresolved.clear()
        self._recreated.clear()

    def recreated(self, partitions: Iterable[TopicPartition]) -> None:
        """Called by the listener: the topic of these was deleted, and another one has its name."""
        again = set(partitions)
        self.let_go(again)
        self._recreated.update(again)
        self.assigned(again)

    def _look_at_topics(self) -> None:
        """Give up what is held in topics that were deleted and created again, and find out where that begins."""
        self._looked_s = self._monotonic()
        if self._in_callback or not (gone := in_deleted_topics(self._consumer, self._held)):
            return
        self._poll(0)  # this tells the listener, if the consumer has a position in the old topic
        if left := gone & self._held.keys():
            self.recreated(left)
        self._resolve()

    # --- giving up ------------------------------------------------------------------------------------------------

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Called by the listener: these partitions go to other members. A batch that has them is waited for."""
        leaving = set(partitions)
        with self._turn:
            # No poll is to be woken up for what is wanted now.
            before, self._poll_state = self._poll_state, Poll.AWAY
        self._in_callback = True
        try:
            rule = self._life.hear(Event.REVOKED)
            if rule is Rule.COMMIT:
                self._commit_due()
            elif rule is Rule.WAIT and leaving & self._held.keys():
                self._wait_for_batch()
        finally:
            self._in_callback = False
            with self._turn:
                self._poll_state = before
        self.let_go(leaving)

    def _wait_for_batch(self) -> None:
        deadline = self._monotonic() + self._spec.revoke_wait_ms / 1000
        while self._life.phase is Phase.BATCH and (not self.stopping or self._commands.owed):
            if self._commands:
                self._commands.run_one()  # one only: the next batch must not begin with what is leaving
                continue
            with self._turn:
                left = deadline - self._monotonic()
                if left <= 0:
                    return
                if not self._commands and not self.stopping:
                    self._turn.wait(left)

    def let_go(self, partitions: Iterable[TopicPartition]) -> None:
        """Called by the listener: nothing may be committed for these partitions any more."""
        for tp in partitions:
            self._held.pop(tp, None)
            self._unresolved.discard(tp)
            self._recreated.discard(tp)

    def _overdue(self) -> bool:
        took_s = self._monotonic() - self._batch_since
        return self._life.phase is Phase.BATCH and took_s > self._spec.batch_timeout_ms / 1000

    def _leave(self) -> None:
        log.warning(
            "group %s: a batch takes longer than batch.timeout.ms=%d: its partitions are given up",
            self._spec.group_id,
            self._spec.batch_timeout_ms,
        )
        self.let_go([*self._held, *self._unresolved])
        self._consumer.unsubscribe()

    # --- commands -------------------------------------------------------------------------------------------------

    def _look(self) -> Holding:
        group = self._consumer.group_metadata()
        held = tuple(self._held[tp] for tp in sorted(self._held))
        known = not self._unresolved and self._consumer.assignment() == set(self._held)
        settled = known and group.generation_id >= 0 and not self._consumer.session_lapsed()
        return Holding(group.member_id, group.generation_id, settled, held)

    def _begin(self) -> Holding:
        if self._life.hear(Event.BEGIN) is Rule.SUBSCRIBE:
            self._subscribe()
            self._life.hear(Event.SUBSCRIBED)
        if self._held and self._monotonic() - self._looked_s >= _TOPICS_SECONDS:
            self._look_at_topics()
        holding = self._look()
        if self._consumer.session_lapsed():  # others may have these by now
            holding = replace(holding, partitions=())
        if holding.partitions and self._life.hear(Event.BEGUN) is Rule.TIME:
            self._batch_since = self._monotonic()
        return holding

    def _finish(self, done: Done) -> list[tuple[str, int]]:
        if self._life.hear(Event.FINISH) is Rule.DISCARD:
            return []
        self._due = {TopicPartition(*tp): what for tp, what in done.items()}
        self._counted = set()
        try:
            self._commit()
        finally:
            self._due = {}
            self._life.hear(Event.SETTLED)
        return sorted(self._counted)

    def _commit(self) -> None:
        """Commit what is due, as often as it takes. Raises KafkaError when that cannot be done in time."""
        if self._due.keys() & self._held.keys():
            self._look_at_topics()
        deadline = self._monotonic() + self._finish_s
        while self._due:
            failure = self._commit_due()
            if failure is None:
                return
            match RETRIES[self._moment()][self._kind(failure, deadline)]:
                case Retry.AGAIN_ANEW:
                    deadline = self._monotonic() + self._finish_s
                case Retry.RAISE:
                    raise failure
                case Retry.GIVE_UP:
                    where = about_member(self._consumer.group_metadata())
                    log.warning(
                        "group %s: %s; the batch in hand comes again", self._spec.group_id, failure, extra=where
                    )
                    return
                case Retry.END:
                    return
                case Retry.AGAIN:
                    pass
            self._poll(_POLL_MS)  # a rebalance has to get on before the commit can

    def _moment(self) -> Moment:
        if self._in_callback:
            return Moment.CALLBACK
        if (stopped_at := self._stopped_at) is None:
            return Moment.GOING
        return Moment.LATE if self._monotonic() >= stopped_at + self._rebalance_s else Moment.STOPPING

    def _kind(self, failure: KafkaError, deadline: float) -> Failure:
        if isinstance(failure, RebalanceInProgressError):
            return Failure.REBALANCING
        return Failure.OVERDUE if self._monotonic() > deadline else Failure.RETRIABLE

    def _commit_due(self) -> KafkaError | None:
        """Commit what is due and still held under the same token. A retriable error is returned."""
        held = {tp: self._held[tp].fencing_token for tp in self._due if tp in self._held}
        mine = {tp: at for tp, (at, token) in self._due.items() if held.get(tp) == token}
        while mine:
            wait_ms = _LAST_COMMIT_MS if self.stopping else None
            try:
                self._consumer.commit({tp: OffsetAndMetadata(at) for tp, at in mine.items()}, timeout_ms=wait_ms)
            except WakeupError:
                continue
            except (RebalanceInProgressError, RetriableError) as error:
                return error
            except CommitFailedError as error:
                log.info(
                    "group %s: %s", self._spec.group_id, error, extra=about_member(self._consumer.group_metadata())
                )
                self.let_go(mine)  # they have, or may have, other owners
                # Or have not, if the session is taken up again: then nobody assigns them anew.
                self._unresolved.update(mine.keys() & self._consumer.assignment())
                break
            for tp, at in mine.items():
                self._held[tp] = replace(self._held[tp], position=at)
            self._counted.update(mine)
            break
        self._due = {}
        return None
