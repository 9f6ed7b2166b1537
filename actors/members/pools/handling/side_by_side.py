"""Several pieces of work at a time, while polls go on: in threads, or as tasks of the handler's event loop.

Polled records wait in lanes; a partition of which too many wait is paused. A rebalance waits until what is in hand
of the partitions that go has ended, but not longer than `revoke_wait_ms`; then tasks are cancelled, and threads are
left to end by themselves. A partition that comes back begins only when they have.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.client import TopicPartition
from actors.members.pools.handling.commits import Commits
from actors.members.pools.handling.delivery import Outcome
from actors.members.pools.handling.doubts import Trial
from actors.members.pools.handling.hands import Hands
from actors.members.pools.handling.in_hand import Declared
from actors.members.pools.handling.lanes import Lanes
from actors.members.pools.handling.order import POLL_MS, Parts
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.work import Work

log = logging.getLogger(__name__)

_ROOM_SECONDS = 0.05


class Ownership:
    """A partition, from its assignment until it is given up or lost."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.in_hand: set[Work] = set()


class SideBySide:
    """The order of a member with concurrency above 1, or with batches that wait for more."""

    def __init__(
        self,
        spec: MemberSpec,
        consumer: Any,
        lanes: Lanes,
        hands: Hands,
        progress: Progress,
        commits: Commits,
        declared: Declared,
        trial: Trial,
        monotonic: Callable[[], float],
    ) -> None:
        self._spec = spec
        self._consumer = consumer
        self._lanes = lanes
        self._hands = hands
        self._progress = progress
        self._commits = commits
        self._declared = declared
        self._trial = trial
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._owned: dict[TopicPartition, Ownership] = {}
        self._former: dict[TopicPartition, list[Ownership]] = {}
        self._paused: set[TopicPartition] = set()
        self._busy = 0
        self._winding_down = False
        self._doubted: Work | None = None
        """A record that is to be handled with nothing else in hand; nothing begins before it has ended."""
        self._failure: BaseException | None = None

    # --- in the member's thread ---

    def poll_ms(self) -> int:
        self._resume()
        if self._doubted is not None:
            return self._try_alone()
        with self._changed:
            self._begin_what_may()
            if self._paused:  # the others are polled often enough meanwhile
                self._changed.wait_for(lambda: self._failure or self._roomy(), _ROOM_SECONDS)
                return 0
            due = self._lanes.due_in(self._monotonic())
        return POLL_MS if due is None else min(POLL_MS, int(due * 1000) + 1)

    def take(self, parts: Parts) -> None:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            for partition, records in parts:
                self._owned.setdefault(partition, Ownership())
                self._lanes.admit(partition, records, self._monotonic())
            self._begin_what_may()
            full = sorted(p for p in self._owned if p not in self._paused and self._lanes.is_full(p))
        if full:
            self._consumer.pause(*full)
            self._paused.update(full)

    def _try_alone(self) -> int:
        """Handle the doubted record, here, if nothing else is in hand soon. Returns how long the next poll may wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy or self._failure, _ROOM_SECONDS)
            work = self._doubted
            if self._consumer.session_lapsed():
                return POLL_MS
            if work is None or self._busy or self._winding_down:
                return 0
            ownership = self._owned[work.partition]
            ownership.in_hand.add(work)
            self._busy += 1
        outcome, failure = Outcome.LEFT, None
        try:
            outcome = self._trial.deliver(work, ownership.stop)
        except BaseException as error:  # `take` raises it
            failure = error
        self._doubted = None
        self._ended(work, outcome, failure)
        return 0

    def _resume(self) -> None:
        with self._changed:
            roomy = sorted(self._roomy())
        if roomy:
            self._consumer.resume(*roomy)
            self._paused.difference_update(roomy)

    def _roomy(self) -> list[TopicPartition]:
        return [p for p in self._paused if self._lanes.has_room(p)]

    def gain(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing of these waits now. Those that were never unassigned in between may still be paused."""
        paused = sorted(self._consumer.paused() & set(partitions))
        if paused:
            self._consumer.resume(*paused)

    def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            going = self._close(partitions)
        if not self._ended_in_time(going):
            log.warning("group %s: handlers still run on partitions that are given up", self._spec.group_id)
            self._hands.cancel(_in_hand(going))

    def _ended_in_time(self, going: Sequence[Ownership]) -> bool:
        """Wait for their work in hand. Work that ends meanwhile is committed at its times, however long others run."""
        deadline = self._monotonic() + self._spec.revoke_wait_ms / 1000
        while True:
            left = max(0.0, deadline - self._monotonic())
            with self._changed:
                pause = min(left, max(self._commits.due_in(), _ROOM_SECONDS))
                if self._changed.wait_for(lambda: not any(ownership.in_hand for ownership in going), pause):
                    return True
            if not left:
                return False
            self._commits.if_due()

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            gone = self._close(partitions)
        self._hands.cancel(_in_hand(gone))

    def _close(self, partitions: Sequence[TopicPartition]) -> list[Ownership]:
        self._paused.difference_update(partitions)
        self._declared.forget(partitions)
        if self._doubted is not None and self._doubted.partition in partitions:
            self._doubted = None
        closed = []
        for partition in partitions:
            self._lanes.drop(partition)
            if (ownership := self._owned.pop(partition, None)) is not None:
                ownership.stop.set()
                self._former.setdefault(partition, []).append(ownership)
                closed.append(ownership)
        return closed

    def end(self) -> None:
        self.wind_down()
        self.give_up(list(self._owned))

    # --- in any thread ---

    def wind_down(self) -> None:
        with self._changed:
            self._winding_down = True
            for ownership in self._owned.values():
                ownership.stop.set()

    def _begin_what_may(self) -> None:
        """Hand over what may begin. The lock is held."""
        while self._may_begin():
            self._former = {p: still for p, all_ in self._former.items() if (still := [t for t in all_ if t.in_hand])}
            work = self._lanes.take(self._monotonic(), self._former)
            if work is None:
                return
            doubted = self._trial.pieces(work)
            if doubted is not None:
                self._put_off(work, doubted)
                continue
            self._declared.begin(work, self._lanes.ahead)
            ownership = self._owned[work.partition]
            ownership.in_hand.add(work)
            self._busy += 1
            self._hands.start(work, ownership.stop, self._ended)

    def _may_begin(self) -> bool:
        return (
            self._busy < self._spec.concurrency
            and self._doubted is None
            and not self._winding_down
            and not self._consumer.session_lapsed()
        )

    def _put_off(self, work: Work, doubted: Sequence[Work]) -> None:
        """Records of this work are doubted: they wait until nothing else is in hand, each by itself."""
        if len(work) == 1:
            self._doubted = work
        else:
            self._lanes.release(work, self._instead_of(work, doubted))

    def _ended(self, work: Work, outcome: Outcome, error: BaseException | None) -> None:
        """A piece has ended, says the thread it was in."""
        self._declared.end(work)
        with self._changed:
            self._busy -= 1
            if error is not None:
                self._failure = self._failure or error
                self._winding_down = True
            ownership = self._owned.get(work.partition)
            if ownership is not None and work in ownership.in_hand:
                ownership.in_hand.remove(work)
                self._lanes.release(work, self._again(work, outcome))
            else:
                for former in self._former.get(work.partition, ()):
                    former.in_hand.discard(work)
            self._begin_what_may()
            self._changed.notify_all()

    def _again(self, work: Work, outcome: Outcome) -> Sequence[Work]:
        if outcome is Outcome.LEFT:
            return [work]
        if outcome is not Outcome.TAKE_APART:
            return ()
        return self._instead_of(work, work.taken_apart())

    def _instead_of(self, work: Work, pieces: Sequence[Work]) -> Sequence[Work]:
        self._progress.drop(work)
        for each in pieces:
            self._progress.begin(each)
        return pieces


def _in_hand(ownerships: Iterable[Ownership]) -> list[Work]:
    return [work for ownership in ownerships for work in list(ownership.in_hand)]
