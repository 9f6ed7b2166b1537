"""A member's heartbeats: their moments, and the consequences of their answers. Sans-IO."""

from __future__ import annotations

from actors.client.errors import AuthenticationError, KafkaError, UnsupportedVersionError
from actors.client.group.consumer_protocol.answers import OF_THE_PROTOCOL, Meaning, meaning_of, refusal, unanswered
from actors.client.group.consumer_protocol.assignments import Assignments, partitions_of
from actors.client.group.consumer_protocol.beats import BEATS, Beats, Kind
from actors.client.group.consumer_protocol.config import MemberConfig
from actors.client.group.consumer_protocol.endings import Endings
from actors.client.group.consumer_protocol.reconciling import Reconciling
from actors.client.group.consumer_protocol.rhythm import Rhythm
from actors.client.group.consumer_protocol.standing import JOIN_EPOCH, Happening, MemberState, Standing
from actors.client.group.consumer_protocol.takeover import Takeover
from actors.client.group.consumer_protocol.wishes import Wishes
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Outbox, Pending
from actors.client.group.stats import Stats
from actors.wire.errors import ErrorCode
from actors.wire.messages import ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse


class Heartbeats:
    """Sends heartbeats by the clocks of `rhythm`, and takes their answers. `error` is what the program has to know."""

    def __init__(
        self,
        config: MemberConfig,
        standing: Standing,
        lookup: CoordinatorLookup,
        outbox: Outbox,
        assignments: Assignments,
        beats: Beats,
        reconciling: Reconciling,
        endings: Endings,
        wishes: Wishes,
        rhythm: Rhythm,
        takeover: Takeover,
        stats: Stats,
    ) -> None:
        self._group_id = config.group_id
        self._joins_anew = config.joins_anew
        self._standing = standing
        self._lookup = lookup
        self._outbox = outbox
        self._assignments = assignments
        self._beats = beats
        self._reconciling = reconciling
        self._endings = endings
        self._wishes = wishes
        self._rhythm = rhythm
        self._takeover = takeover
        self._stats = stats
        self._stepped_back = False
        self.error: BaseException | None = None

    # --- time -----------------------------------------------------------------------------------------------------

    def on_time(self, now_ms: int) -> None:
        """Do what is due: look for the coordinator, leave after too long without a poll, heartbeat."""
        if not self._standing.beating:
            return
        if self._lookup.coordinator is None:
            self._outbox.find_coordinator(now_ms)
        elif self._standing.in_group and now_ms >= self._rhythm.poll_deadline_ms:
            self._endings.stop_for_want_of_polls(now_ms)
        else:
            self.beat_if_due(now_ms)

    def next_deadline(self) -> int | None:
        """The time to call `on_time` next; None while heartbeats are off."""
        if not self._standing.beating:
            return None
        if self._lookup.coordinator is None:
            return self._lookup.next_ms
        times = [self._rhythm.poll_deadline_ms] if self._standing.in_group else []
        if self._possible:
            times.append(self._due_ms)
        return min(times, default=None)

    @property
    def _possible(self) -> bool:
        """True if a heartbeat can be sent, once it is due: there is one at a time, and a join comes after a leave."""
        free = not self._outbox.in_flight(*BEATS, Kind.LEAVE, Kind.LOOK)
        return self._standing.beating and self._lookup.coordinator is not None and free and self._can_say

    @property
    def _can_say(self) -> bool:
        return self._wishes.known or self._standing.state is not MemberState.JOINING

    @property
    def _joins(self) -> bool:
        return self._standing.state is MemberState.JOINING and self._standing.epoch == JOIN_EPOCH

    @property
    def _due_ms(self) -> int:
        return self._rhythm.due_ms(at_once=self._joins or self._standing.state is MemberState.ACKNOWLEDGING)

    def beat_if_due(self, now_ms: int) -> None:
        """Send a heartbeat if it is time for one, and possible."""
        if not self._possible or now_ms < self._due_ms:
            return
        standing, wish, owned = self._standing, self._wishes.wish, self._assignments.owned
        whole = self._joins or self._rhythm.in_doubt(now_ms)
        if self._joins:
            self._stats.joins_sent += 1
            request = self._beats.join(standing.member_id, wish, owned)
        else:
            if whole:  # nobody knows what was said meanwhile, nor what was answered
                self._beats.forget()
            request = self._beats.beat(standing.member_id, standing.epoch, wish, owned, self._reconciling.coming)
        self._stats.heartbeats += 1
        self._outbox.send(Kind.BEAT if wish.expression is None else Kind.BEAT_BY_EXPRESSION, request, now_ms)
        self._rhythm.sent(now_ms, whole=whole)
        if standing.state is MemberState.ACKNOWLEDGING:
            standing.happened(Happening.ACKNOWLEDGED if self._assignments.settled else Happening.BEHIND)

    # --- answers --------------------------------------------------------------------------------------------------

    def answered(self, pending: Pending, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """The answer to a heartbeat."""
        self._stats.times.heartbeat.record(now_ms - pending.sent_ms, now_ms)
        meaning = self._meaning(response.error_code)
        if meaning is Meaning.DONE:
            self._lookup.alive()
            self._stepped_back = False
            self._rhythm.confirmed(pending.sent_ms, response.heartbeat_interval_ms)
            self._counts(response, now_ms)
            return
        self._refused()
        match meaning:
            case Meaning.MOVED:
                self._rhythm.hurry()
                self._outbox.coordinator_lost(pending.node, now_ms, drop=True)
            case Meaning.OUT:
                if self._joins:  # a coordinator of Kafka 4.1 refuses joins until the session has ended
                    self._rhythm.failed(now_ms)
                self._endings.fenced()
            case Meaning.NEVER if self._place_taken(response.error_code) and self._takeover.possible(now_ms):
                self._takeover.look(now_ms)
            case Meaning.NEVER if self._refused_by_itself(response.error_code):
                self._stepped_back = True
                self._endings.step_back(now_ms)
            case Meaning.NEVER:
                self._endings.failed(refusal(response, self._group_id))
            case Meaning.DENIED:
                self.error = self.error or refusal(response, self._group_id)
                self._rhythm.failed(now_ms)
            case Meaning.LATER:
                self._rhythm.failed(now_ms)

    def _meaning(self, code: int) -> Meaning:
        return Meaning.OUT if code in OF_THE_PROTOCOL and self._may_join_anew else meaning_of(code)

    @property
    def _may_join_anew(self) -> bool:
        """True if a refusal of the protocol ends this membership alone: of a join it is final."""
        return self._joins_anew and not self._joins

    def _refused_by_itself(self, code: int) -> bool:
        """True if the static member that is in this one's way may be itself: it joins, but was heard of before.

        An earlier join, or the answer to it, or a leave may be lost.
        """
        before = self._stats.heartbeats > 1 and not self._stepped_back
        return self._place_taken(code) and before

    def _place_taken(self, code: int) -> bool:
        """True if this static member joins, and the coordinator has one of its name."""
        return code == ErrorCode.UNRELEASED_INSTANCE_ID and self._joins

    def looked(self, response: ConsumerGroupDescribeResponse, now_ms: int) -> None:
        """The answer to who has this static member's place."""
        if self._joins and not self._takeover.looked(response, now_ms):
            self._rhythm.failed(now_ms)

    def look_failed(self, error: KafkaError, now_ms: int) -> None:
        """There is no answer to who has this static member's place."""
        if not error.retriable:
            self._takeover.unseen(error)
        self._rhythm.failed(now_ms)

    def goodbye_lost(self) -> None:
        """Nobody knows whether the coordinator has heard that this member leaves."""
        self._stepped_back = False

    def _refused(self) -> None:
        self._stats.heartbeats_failed += 1
        self._beats.forget()

    def _counts(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """A heartbeat succeeded: the epoch counts at once, and an assignment is what the user's thread does next."""
        if not self._standing.beating or response.member_epoch < 0:
            return
        self._takeover.over()
        self._standing.at_epoch(response.member_epoch)
        if response.assignment is None or self._standing.state is MemberState.PREPARE_LEAVING:
            return
        was_stable = self._standing.state is MemberState.STABLE
        self._assignments.receive(partitions_of(response.assignment))
        if not was_stable or not self._assignments.settled:
            self._rhythm.moved(now_ms)
        if self._assignments.settled:
            self._standing.happened(Happening.AS_BEFORE)
        else:
            self._reconciling.received(now_ms)
            self._standing.happened(Happening.ASSIGNED)

    def unanswered(self, error: KafkaError, now_ms: int) -> None:
        """A heartbeat was not answered, or could not be sent."""
        self._refused()
        if isinstance(error, UnsupportedVersionError) and self._may_join_anew:
            self._endings.fenced()
            return
        self._rhythm.failed(now_ms)
        if error.retriable:
            return
        if isinstance(error, AuthenticationError):  # credentials may come back
            self.error = self.error or error
        else:
            self._endings.failed(unanswered(error, self._group_id))

    def lost(self, error: BaseException, now_ms: int) -> None:
        """The background thread failed with this error. Nobody knows what was sent: the next one says everything."""
        self.error = self.error or error
        self._beats.forget()
        self._rhythm.failed(now_ms)
