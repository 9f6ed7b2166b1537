"""A leader's side of one partition: how far each follower is, the high watermark, and the in-sync set (KIP-497).

The watermark is the least log end over the recorded in-sync set and the proposed one together: a removal counts
once the controller has recorded it, a joiner from the moment it is proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from actors.log.replication.messages import UNKNOWN, Ack, LeaderLog, Outcome, Push


@dataclass(frozen=True, slots=True)
class Proposal:
    """An in-sync set to record if the partition is still at `partition_epoch`: (broker id, broker epoch) each."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class _Follower:
    __slots__ = (
        "acked",
        "broker_epoch",
        "caught_up_ms",
        "connected",
        "first_round",
        "mark",
        "matched",
        "next_offset",
        "outstanding",
        "refused",
        "round",
        "sent_ms",
        "start",
        "told_start",
        "told_watermark",
    )

    def __init__(self, now_ms: int) -> None:
        self.connected = False
        self.broker_epoch = UNKNOWN
        self.round = 0
        self.first_round = 0
        """Answers to earlier rounds do not count: they are about a log that may have been deleted since."""
        self.next_offset = 0
        self.acked = UNKNOWN
        """The follower's log is ours up to here, by an answer of its present process to our present epoch."""
        self.matched = False
        self.outstanding = 0
        self.refused = False
        self.sent_ms = now_ms
        self.start = UNKNOWN
        """The beginning of the follower's log, by its last answer."""
        self.told_start = UNKNOWN
        self.told_watermark = UNKNOWN
        self.caught_up_ms = now_ms
        self.mark = (0, now_ms)  # our log end and a time (ms): a follower that has reached it was caught up then

    def forget(self, number: int, offset: int) -> None:
        """Forget what was known of its log: late answers may be about another one. Then ask as `probe` does."""
        self.acked = self.start = self.told_start = self.told_watermark = UNKNOWN
        self.probe(number, offset)
        self.first_round = number

    def probe(self, number: int, offset: int) -> None:
        """Have the next push, in round `number`, find out whether its log is ours up to `offset`."""
        self.round = number
        self.matched = False
        self.refused = False
        self.outstanding = 0
        self.next_offset = offset


class LeaderReplica:
    """The replica of a partition that leads it. A new one is made for each leader epoch.

    One is also made within an epoch, if there were no followers in between. So `rounds` gives numbers that this process
    never uses twice.
    """

    def __init__(
        self,
        me: int,
        log: LeaderLog,
        *,
        leader_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        min_insync: int,
        now_ms: int,
        unclean: bool,
        added_at: int,
        rounds: Iterator[int],
    ) -> None:
        self.log = log
        self._unclean = unclean
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.isr = frozenset(isr)
        self.deposed = False
        """True if a follower knows a newer epoch. Nothing commits here any more then."""
        self._me = me
        self.min_insync = min_insync
        self._proposed: frozenset[int] | None = None
        self._outcome_unknown = False
        self._epoch_start = log.log_end_offset
        log.assign_leader_epoch(leader_epoch)
        self._followers: dict[int, _Follower] = {}
        self._rounds = rounds
        self._added_at = added_at
        self._set_replicas(replicas, now_ms)
        self.advance()

    # -- what the controller says

    def update(
        self,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        min_insync: int,
        now_ms: int,
        added_at: int,
    ) -> list[int]:
        """Take over the controller's record of the partition, at the same leader epoch.

        Returns the followers of whose logs nothing is known: those that are new, and after an addition all that are out
        of sync. Each of these may have been dropped and added again, and then its log is another one. A member of the
        in-sync set cannot: to come back into the set, this leader would have had to propose it. For the same reason
        members need no `since`: the leader that proposed them had told them of their addition, and elections add none.
        """
        self.min_insync = min_insync
        before = set(self._followers)
        if partition_epoch > self.partition_epoch:
            # The proposal started from an older state. It either is in this one, or was refused.
            self.partition_epoch, self.isr = partition_epoch, frozenset(isr)
            self._proposed, self._outcome_unknown = None, False
        elif partition_epoch == self.partition_epoch and self._outcome_unknown:
            self._proposed, self._outcome_unknown = None, False
        self._set_replicas(replicas, now_ms)
        anew = set(self._followers) - before
        if added_at > self._added_at:
            self._added_at = added_at
            anew |= set(self._followers) - self.isr
        for broker in anew:
            self._forget(self._followers[broker])
        self.advance()
        return sorted(anew)

    def _set_replicas(self, replicas: Iterable[int], now_ms: int) -> None:
        wanted = set(replicas) - {self._me}
        for broker in [broker for broker in self._followers if broker not in wanted]:
            del self._followers[broker]
        for broker in wanted:
            self._followers.setdefault(broker, _Follower(now_ms))

    def refused(self, partition_epoch: int) -> bool:
        """The controller refused what was proposed to its state at `partition_epoch`.

        Returns True if the watermark moved.

        A newer state may be known here by now. A proposal to that state still counts.
        """
        if partition_epoch != self.partition_epoch:
            return False
        self._proposed = None
        return self.advance()

    def outcome_unknown(self, partition_epoch: int) -> None:
        """The controller was lost before it answered: the proposal counts until its successor says what holds."""
        if partition_epoch == self.partition_epoch:
            self._outcome_unknown = self._proposed is not None

    # -- the high watermark

    @property
    def settled(self) -> bool:
        """True if no proposal waits for its outcome."""
        return not self._outcome_unknown

    @property
    def watermark_is_known(self) -> bool:
        """True if the watermark has reached the log end at which this epoch began (KIP-207)."""
        return self.log.high_watermark >= self._epoch_start

    @property
    def followers(self) -> list[int]:
        return list(self._followers)

    @property
    def counted(self) -> frozenset[int]:
        """The brokers whose log ends the watermark waits for."""
        return self.isr | self._proposed if self._proposed is not None else self.isr

    @property
    def proposed(self) -> frozenset[int] | None:
        """The in-sync set that was proposed; None if no proposal is under way."""
        return self._proposed

    def acknowledged(self, broker: int) -> tuple[int, int]:
        """The epoch of a follower's broker, and up to where it has acknowledged our log; -1 each if that is unknown."""
        follower = self._followers.get(broker)
        return (UNKNOWN, UNKNOWN) if follower is None else (follower.broker_epoch, follower.acked)

    def bytes_left(self, broker: int) -> int:
        """About how many bytes a follower lacks; all that is here, if nothing is known of its log."""
        follower = self._followers[broker]
        return self.log.bytes_from(max(follower.acked, self.log.log_start_offset))

    def advance(self) -> bool:
        """Move the high watermark as far as it may go. Returns True if it moved.

        It does not move before every member has acknowledged, in this epoch, all that was here when the epoch began;
        nor while fewer than `min.insync.replicas` are in sync (KIP-966).
        """
        if self.deposed or len(self.isr) < min(self.min_insync, len(self._followers) + 1):
            return False
        end = self.log.log_end_offset
        for broker in self.counted:
            if broker != self._me:
                follower = self._followers.get(broker)
                if follower is None or follower.acked < self._epoch_start:
                    return False
                end = min(end, follower.acked)
        return self.log.advance_high_watermark(end)

    # -- the log's start

    @property
    def start_in_sync(self) -> int:
        """The offset below which no member of the in-sync set has records: none can show older ones when it leads."""
        start = self.log.log_start_offset
        for broker in self.counted:
            if broker != self._me:
                follower = self._followers.get(broker)
                start = min(start, follower.start if follower is not None else UNKNOWN)
        return start

    def untold_start(self) -> list[int]:
        """The followers that were not told yet where the log begins now."""
        start = self.log.log_start_offset
        return [b for b, each in self._followers.items() if each.connected and each.told_start < start]

    # -- followers

    def connect(self, broker: int, broker_epoch: int, now_ms: int) -> None:
        """A connection to a follower's broker, at `broker_epoch`, is up. Nothing is known of its log yet."""
        follower = self._followers.get(broker)
        if follower is not None:
            follower.connected, follower.broker_epoch = True, broker_epoch
            self._forget(follower)

    def disconnect(self, broker: int) -> None:
        """The connection has ended. Its acknowledgements do not count: the next process may have lost the records."""
        follower = self._followers.get(broker)
        if follower is not None:
            follower.connected = False
            self._forget(follower)

    def _forget(self, follower: _Follower) -> None:
        follower.forget(next(self._rounds), self.log.log_end_offset)

    def take_push(self, broker: int, max_bytes: int, now_ms: int, *, idle: bool = False) -> Push | None:
        """The next push to a follower; None if there is nothing to send, or an answer has to come first.

        A log start that it does not know is sent at once. With `idle`, so is a watermark that has moved.
        """
        follower = self._followers.get(broker)
        if follower is None or not follower.connected or self.deposed:
            return None
        if not follower.matched and follower.outstanding:
            return None
        log = self.log
        base = follower.next_offset = max(follower.next_offset, log.log_start_offset)
        end = log.log_end_offset
        told = follower.told_start >= log.log_start_offset
        told = told and not (idle and follower.told_watermark < log.high_watermark)
        if base >= end and follower.matched and told:
            return None
        records, next_offset = log.read_with_end(base, max_bytes) if base < end else (b"", base)
        follower.next_offset = next_offset
        follower.outstanding += 1
        follower.sent_ms = now_ms
        follower.told_start, follower.told_watermark = log.log_start_offset, log.high_watermark
        return Push(
            leader_epoch=self.leader_epoch,
            round=follower.round,
            base_offset=base,
            previous_epoch=log.epoch_at(base - 1) if base > log.log_start_offset else UNKNOWN,
            next_offset=next_offset,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            unclean=self._unclean,
            records=records,
            epochs=log.epochs_between(base, next_offset),
            since=UNKNOWN if broker in self.isr else self._added_at,
        )

    def unread(self, broker: int, now_ms: int) -> None:
        """The log could not be read for `take_push`. `retry` tries again, as if the follower had refused the push."""
        follower = self._followers.get(broker)
        if follower is not None:
            follower.outstanding += 1
            follower.refused = True
            follower.sent_ms = now_ms

    def on_ack(self, broker: int, ack: Ack, now_ms: int) -> bool:
        """Take a follower's answer. Returns True if the high watermark moved."""
        if ack.outcome is Outcome.FENCED:
            self.deposed = self.deposed or ack.leader_epoch > self.leader_epoch
            return False
        follower = self._followers.get(broker)
        if follower is None or not follower.connected or ack.leader_epoch != self.leader_epoch:
            return False
        if ack.round < follower.first_round:
            return False
        if ack.outcome is Outcome.MATCHED:
            return self._matched(follower, ack, now_ms)
        if ack.round != follower.round:
            return False
        if ack.outcome is Outcome.FAILED:
            follower.refused = True
        elif ack.outcome is Outcome.MISMATCHED:
            point = self._common_point(ack)
            follower.acked = min(follower.acked, point)  # in case its disk has lost what it had acknowledged
            follower.probe(next(self._rounds), point)
        return False

    def _matched(self, follower: _Follower, ack: Ack, now_ms: int) -> bool:
        if ack.round == follower.round:
            follower.matched = True
            follower.outstanding = max(follower.outstanding - 1, 0)
        follower.acked = max(follower.acked, ack.end_offset)
        follower.start = ack.log_start_offset
        end, at_ms = follower.mark
        if follower.acked >= end:
            follower.caught_up_ms = max(follower.caught_up_ms, at_ms)
            follower.mark = (self.log.log_end_offset, now_ms)
        if follower.acked >= self.log.log_end_offset:
            follower.caught_up_ms = now_ms
        return self.advance()

    def _common_point(self, ack: Ack) -> int:
        """Up to where the follower's log can be ours: where its newest epoch that we know ends in the shorter log."""
        log = self.log
        point = log.log_start_offset
        for epoch, end in reversed(ack.epochs):
            known, our_end = log.end_offset_for_epoch(epoch)
            if known == epoch:
                point = min(end, our_end)
                break
        point = max(point, min(ack.high_watermark, log.log_end_offset), log.log_start_offset)
        return min(point, max(ack.end_offset, log.log_start_offset))

    def retry(self, now_ms: int, silent_ms: int, refused_ms: int) -> list[int]:
        """Ask followers anew that owe an answer for `silent_ms`, or refused a push `refused_ms` ago. Returns them."""
        late = []
        for broker, follower in self._followers.items():
            after_ms = refused_ms if follower.refused else silent_ms
            if follower.connected and follower.outstanding and now_ms - follower.sent_ms >= after_ms:
                follower.probe(next(self._rounds), max(follower.acked, self.log.log_start_offset))
                late.append(broker)
        return late

    # -- the in-sync set

    def propose(self, now_ms: int, lag_ms: int, me_epoch: int, heard_ms: Callable[[int], int]) -> Proposal | None:
        """Propose a better in-sync set; None if there is none, or a proposal is under way. It counts from now on.

        `lag_ms` is `replica.lag.time.max.ms`. `heard_ms(broker)` is when a follower's broker last gave a sign of life,
        which keeps followers in sync to which there is nothing to send.
        """
        if self._proposed is not None or self.deposed:
            return None
        wanted = frozenset(broker for broker in self.isr if self._stays(broker, now_ms, lag_ms, heard_ms))
        wanted |= {broker for broker, each in self._followers.items() if self._may_join(broker, each)}
        if wanted == self.isr:
            return None
        self._proposed = wanted
        members = sorted(wanted)
        epochs = tuple((b, me_epoch if b == self._me else self._followers[b].broker_epoch) for b in members)
        return Proposal(self.leader_epoch, self.partition_epoch, epochs)

    def _stays(self, broker: int, now_ms: int, lag_ms: int, heard_ms: Callable[[int], int]) -> bool:
        if broker == self._me:
            return True
        follower = self._followers.get(broker)
        if follower is None:
            return False
        if follower.connected and follower.acked >= self.log.log_end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, heard_ms(broker))
        return now_ms - follower.caught_up_ms <= lag_ms

    def _may_join(self, broker: int, follower: _Follower) -> bool:
        return (
            broker not in self.isr
            and follower.connected
            and follower.matched
            and follower.acked >= max(self.log.high_watermark, self._epoch_start)
            and follower.start >= self.log.log_start_offset
        )
