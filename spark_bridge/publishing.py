"""Offsets of groups without members, committed by a thread: the newest only, later if the brokers are not there.

Nobody waits for the thread. Offsets that it is given while a commit is under way take the place of those before.
`GroupCommits` decides what is sent when, and `Publisher` sends it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from actors.client import Admin, TopicPartition
from actors.client.errors import (
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from actors.runtime.environment import REAL
from actors.runtime.logs import about
from spark_bridge.progress import GroupOffsets, Offsets

log = logging.getLogger(__name__)

Outcomes = Mapping[TopicPartition, KafkaError | None]

REFRESH_S: Final = 600.0
"""The interval at which all offsets of a group are committed again while a query of it runs: old commits expire."""
_FIRST_PAUSE_S: Final = 0.5
_LAST_PAUSE_S: Final = 30.0
_ASK_MS: Final = 5_000
_MEMBERS: Final = "members"
_HAS_MEMBERS: Final = (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError)


class GroupCommits:
    """A group's offsets to commit, those committed, and the time of the next attempt. Times are monotonic seconds."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.committed: dict[TopicPartition, int] = {}
        self.problem: str | None = None
        """The reason why the last attempt has not committed all; None if it has."""
        self._wanted: Offsets = {}
        self._live = False
        # Offsets that were committed or refused: they are not sent again before they change, or REFRESH_S is over.
        self._settled: dict[TopicPartition, int] = {}
        self._refused: dict[TopicPartition, str] = {}  # with the name of the problem
        self._not_before_s = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._fresh_until_s: float | None = None
        self._logged: set[str] = set()

    def want(self, offsets: Offsets, *, live: bool) -> None:
        """These are the group's offsets now. `live`: they are kept from expiring."""
        self._wanted, self._live = dict(offsets), live

    def hurry(self) -> None:
        """Whoever waits gets one more attempt at once."""
        self._not_before_s = 0.0

    def due(self, now_s: float) -> dict[TopicPartition, int]:
        """The offsets that are to be committed now."""
        if now_s < self._not_before_s:
            return {}
        if self._live and (self._fresh_until_s is None or now_s >= self._fresh_until_s):
            self._fresh_until_s = now_s + REFRESH_S
            self._settled.clear()
        return {tp: offset for tp, offset in self._wanted.items() if self._settled.get(tp) != offset}

    def due_in_s(self, now_s: float) -> float | None:
        """The seconds until something is due, if nothing else happens; None: never."""
        if self._not_before_s > now_s:
            return self._not_before_s - now_s
        return max(0.0, self._fresh_until_s - now_s) if self._live and self._fresh_until_s is not None else None

    def answered(self, sent: Offsets, outcomes: Outcomes, now_s: float) -> None:
        """The group's coordinator has answered. A partition that it refuses for good waits for another offset."""
        refused = {tp: error for tp in sent if (error := outcomes.get(tp)) is not None}
        problems = {tp: _problem(tp, error) for tp, error in refused.items()}
        counted = {tp: offset for tp, offset in sent.items() if tp not in refused}
        self.committed |= counted
        again = {tp for tp, error in refused.items() if _may_succeed(error)}
        self._settled |= {tp: offset for tp, offset in sent.items() if tp not in again}
        if again:
            self._put_off(now_s)
        else:
            self._not_before_s, self._pause_s = 0.0, _FIRST_PAUSE_S
        kept = {tp: key for tp, key in self._refused.items() if tp in self._wanted and tp not in counted}
        if counted:  # a group that takes one commit has no members any more
            self._settled = {tp: at for tp, at in self._settled.items() if kept.get(tp) != _MEMBERS}
        self._refused = kept | {tp: key for tp, (key, _) in problems.items()}
        for key, text in dict(problems.values()).items():
            self._tell(key, text)
        if not self._refused:
            self._is_well()

    def failed(self, error: Exception, now_s: float) -> None:
        """Nobody has answered, or the group's coordinator refuses all. The newest offsets are tried again later."""
        self._put_off(now_s)
        self._tell(type(error).__name__, f"{error}; the newest offsets are tried again")

    def _put_off(self, now_s: float) -> None:
        self._not_before_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)

    def _tell(self, key: str, text: str) -> None:
        self.problem = f"group {self.group_id!r}: the progress of Spark is not committed: {text}"
        if key not in self._logged:
            self._logged.add(key)
            log.error("%s", self.problem, extra=about(group=self.group_id))

    def _is_well(self) -> None:
        if self._logged:
            of_group = about(group=self.group_id)
            log.info("group %r: the progress of Spark is committed again", self.group_id, extra=of_group)
        self._logged.clear()
        self.problem = None


def _may_succeed(error: KafkaError) -> bool:
    """True if the same commit may succeed in a moment. A topic that is not there rarely comes back."""
    return error.retriable and not isinstance(error, UnknownTopicOrPartitionError)


def _problem(tp: TopicPartition, error: KafkaError) -> tuple[str, str]:
    """The name of a problem, by which it is logged once, and the text."""
    if isinstance(error, _HAS_MEMBERS):
        return _MEMBERS, "it has members, so only they may commit: give the Spark queries a group of their own"
    if isinstance(error, UnknownTopicOrPartitionError):
        return f"topic {tp.topic}", f"these brokers have no partition {tp.topic}-{tp.partition}"
    return type(error).__name__, str(error)


class Publisher:
    """The thread that commits. It connects when there is something to commit first."""

    def __init__(self, connect: Callable[[], Admin], monotonic: Callable[[], float] = REAL.clock.monotonic) -> None:
        self._connect, self._monotonic = connect, monotonic
        self._admin: Admin | None = None
        self._groups: dict[str, GroupCommits] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="coterie-progress", daemon=True)
        self._thread.start()

    def publish(self, found: GroupOffsets) -> None:
        """Have these offsets committed. Returns at once."""
        with self._changed:
            group = self._groups.setdefault(found.group_id, GroupCommits(found.group_id))
            group.want(found.offsets, live=found.live)
            self._changed.notify()

    def committed(self) -> dict[str, dict[TopicPartition, int]]:
        """The offsets that were committed last, by group."""
        with self._changed:
            return {group_id: dict(group.committed) for group_id, group in self._groups.items()}

    def problems(self) -> list[str]:
        """The problems that keep groups from being committed now."""
        with self._changed:
            return [group.problem for group in self._groups.values() if group.problem is not None]

    def close(self, timeout_s: float) -> bool:
        """Commit what is left, in one attempt, and end. Returns False if that has not ended within `timeout_s`."""
        with self._changed:
            self._closing = True
            for group in self._groups.values():
                group.hurry()
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (work := self._next()) is not None:
                self._commit(*work)
        finally:
            if self._admin is not None:
                self._admin.close()

    def _next(self) -> tuple[GroupCommits, dict[TopicPartition, int], bool] | None:
        """Wait for offsets that are due; None if there is nothing left to do. The last says whether all is to end."""
        with self._changed:
            while True:
                now_s = self._monotonic()
                for group in self._groups.values():
                    if due := group.due(now_s):
                        return group, due, self._closing
                if self._closing:
                    return None
                waits = [wait for group in self._groups.values() if (wait := group.due_in_s(now_s)) is not None]
                self._changed.wait(min(waits, default=None))

    def _commit(self, group: GroupCommits, due: dict[TopicPartition, int], closing: bool) -> None:
        try:
            if self._admin is None:
                self._admin = self._connect()
            outcomes = self._admin.alter_consumer_group_offsets(
                group.group_id, due, timeout_ms=_ASK_MS, raise_errors=False
            )
        except Exception as error:  # nobody looks at this thread, and the streams go on
            if not isinstance(error, KafkaError | OSError):
                log.exception("the offsets of group %r could not be committed", group.group_id)
            with self._changed:
                group.failed(error, self._monotonic())
                if self._closing and not closing:  # the end came meanwhile, and gives what is newest an attempt
                    group.hurry()
            return
        with self._changed:
            group.answered(due, outcomes, self._monotonic())
