"""The ends of a membership: by leaving, by being expelled, by a refusal, or for want of polls. Sans-IO."""

from __future__ import annotations

from actors.client.errors import KafkaError
from actors.client.group.consumer_protocol.assignments import Assignments
from actors.client.group.consumer_protocol.beats import BEATS, Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.handover import Handover
from actors.client.group.consumer_protocol.rhythm import Rhythm
from actors.client.group.consumer_protocol.standing import (
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    Happening,
    MemberState,
    Standing,
)
from actors.client.group.holdings import Holdings
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Outbox
from actors.client.group.stats import Stats
from actors.client.records import GroupMembershipOperation as Parting


class Endings:
    """Ends the membership. `fatal` is why there will never be another one."""

    def __init__(
        self,
        config: MemberConfig,
        standing: Standing,
        lookup: CoordinatorLookup,
        outbox: Outbox,
        holdings: Holdings,
        assignments: Assignments,
        beats: Beats,
        handover: Handover,
        rhythm: Rhythm,
        stats: Stats,
    ) -> None:
        self._config = config
        self._standing = standing
        self._lookup = lookup
        self._outbox = outbox
        self._holdings = holdings
        self._assignments = assignments
        self._beats = beats
        self._handover = handover
        self._rhythm = rhythm
        self._stats = stats
        self.fatal: KafkaError | None = None

    def prepare(self) -> None:
        """The listener is about to hear of the end. Heartbeats go on until it has."""
        if self._standing.in_group:
            self._standing.happened(Happening.PREPARE)

    def leave(self, now_ms: int, parting: Parting) -> None:
        """Leave, if there is something to leave."""
        self.prepare()
        if self._standing.state is MemberState.PREPARE_LEAVING:
            self._say_goodbye(now_ms, parting)
        if self._standing.state in (MemberState.LEAVING, MemberState.FENCED):
            self._standing.happened(Happening.LEFT)

    def stop_for_want_of_polls(self, now_ms: int) -> None:
        """The program is taken for hung: others get its partitions, which are lost."""
        self._stats.poll_timeouts += 1
        self.prepare()
        self._say_goodbye(now_ms, Parting.DEFAULT)
        self._standing.happened(Happening.POLL_EXPIRED)
        self._lose()

    def _say_goodbye(self, now_ms: int, parting: Parting) -> None:
        """Send the last heartbeat, even if another has no answer yet, unless the coordinator is not known."""
        self._standing.happened(Happening.LEAVE)
        self._outbox.abandon(*BEATS)
        static = self._config.group_instance_id is not None
        for_a_while = static and parting is not Parting.LEAVE_GROUP
        silent = not static and parting is Parting.REMAIN_IN_GROUP
        if self._lookup.coordinator is not None and not silent:
            epoch = LEAVE_FOR_A_WHILE_EPOCH if for_a_while else LEAVE_EPOCH
            self._outbox.send(Kind.LEAVE, self._beats.leave(self._standing.member_id, epoch), now_ms)
        self._end()

    def step_back(self, now_ms: int) -> None:
        """Leave for a while a place that the coordinator keeps for this static member. The answer lets it join."""
        self._outbox.send(Kind.LEAVE, self._beats.leave(self._standing.member_id, LEAVE_FOR_A_WHILE_EPOCH), now_ms)

    def fenced(self) -> None:
        """Expelled. All that was owned is lost; once the listener has heard of it, the member joins again."""
        self._standing.happened(Happening.FENCED)
        if self._standing.state is MemberState.FENCED:
            self._lose()
            self.rejoin()
        else:
            self._end()  # it was about to leave anyway

    def rejoin(self) -> None:
        """Join again, if a fenced member has nothing left to tell its listener."""
        if self._standing.state is MemberState.FENCED and not self._handover.waiting:
            self._standing.happened(Happening.RELEASED)

    def failed(self, error: KafkaError) -> None:
        """The group will not have this member."""
        self._standing.happened(Happening.FAILED)
        self.fatal = error
        self._lose()

    def _lose(self) -> None:
        if self._holdings.owned:
            self._stats.memberships_lost += 1
        self._handover.lose()
        self._end()

    def _end(self) -> None:
        """The membership is over, and with it all that the coordinator has said and been told."""
        self._assignments.forget()
        self._beats.forget()
        self._rhythm.ended()
        self._stats.rebalance_started_ms = None
