"""A member's rounds of joining: JoinGroup, the leader's assignment, SyncGroup, and when to try again. Sans-IO."""

from __future__ import annotations

from actors.client.error_codes import error_for
from actors.client.errors import IllegalStateError, InconsistentGroupProtocolError, KafkaError
from actors.client.group.callbacks import wrapped
from actors.client.group.classic import requests
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.leader import Leader
from actors.client.group.classic.leader_assignment import counts_assigned, pack
from actors.client.group.classic.requests import PROTOCOL_TYPE
from actors.client.group.classic.round import Join, Kind
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.client.group.liveness import Liveness
from actors.client.group.lookup import CoordinatorLookup
from actors.client.group.outbox import Outbox, Pending
from actors.client.group.stats import Stats
from actors.client.net.backoff import Backoff
from actors.client.records import GroupMembershipOperation as Parting
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import DescribeGroupsResponse, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse

JOIN_GRACE_MS = 5000


class Joining:
    """`join` is the round under way. `needed`: another one is due; `unprepared`: it has to be prepared first.

    `error` is what the user's next poll raises. There are many fields, because a round touches all parts of a member.
    """

    def __init__(
        self,
        config: MembershipConfig,
        standing: Standing,
        lookup: CoordinatorLookup,
        outbox: Outbox,
        holdings: Holdings,
        leader: Leader,
        live: Liveness,
        stats: Stats,
        backoff: Backoff,
    ) -> None:
        self._config = config
        self._standing = standing
        self._lookup = lookup
        self._outbox = outbox
        self._holdings = holdings
        self._leader = leader
        self._live = live
        self._stats = stats
        self._backoff = backoff
        self._failures = 0
        self._reason = ""
        self.join: Join | None = None
        self.needed = True
        self.unprepared = True
        self.not_before_ms = 0
        self.error: BaseException | None = None

    def take_error(self) -> BaseException | None:
        """The error that the user's thread has to raise, or None; it is forgotten then."""
        error, self.error = self.error, None
        return error or self._lookup.take_error()

    def request(self, reason: str) -> None:
        """Join again at the next poll; the coordinator is told why (KIP-800)."""
        if not self.needed:
            self._reason = reason
        self.needed = True

    def out(self, *, keep_member_id: bool) -> None:
        """This member has left, or was expelled or fenced: it has to join anew."""
        self._standing.out(keep_member_id=keep_member_id)
        self.needed = True
        self.unprepared = True
        self._live.ended()

    def leave(self, now_ms: int, reason: str, parting: Parting = Parting.DEFAULT) -> None:
        """Leave the group. A dynamic member sends LeaveGroup, once; a static one only stops (KIP-345).

        `parting` may say otherwise (KIP-1092).
        """
        standing = self._standing
        dynamic = self._config.group_instance_id is None
        goes = {Parting.DEFAULT: dynamic, Parting.LEAVE_GROUP: True, Parting.REMAIN_IN_GROUP: False}[parting]
        joined = standing.state is not MemberState.UNJOINED and standing.generation.member_id
        if goes and self._lookup.coordinator and joined:
            self._outbox.send(Kind.LEAVE, requests.leave(self._config, standing.generation, reason), now_ms)
        self.join = None
        self._outbox.abandon(Kind.JOIN, Kind.SYNC, Kind.DESCRIBE)
        self.out(keep_member_id=False)

    def failed(self, now_ms: int, *, at_once: bool = False, error: BaseException | None = None) -> None:
        """The round is over without an assignment; the next begins at once, or after the backoff."""
        self.join = None
        self._stats.rebalances_failed += 1
        self.request("the last join failed")
        if at_once:
            self.not_before_ms = now_ms
            return
        self._failures += 1
        self.not_before_ms = now_ms + self._backoff.delay_ms(self._failures)
        self.error = error

    # --- JoinGroup ------------------------------------------------------------------------------------------------

    def send(self, now_ms: int) -> None:
        """Begin a round: send JoinGroup with what each assignor offers."""
        config, standing = self._config, self._standing
        try:
            protocols = [
                requests.offer(config, assignor, standing.generation, self._holdings.topics, self._holdings.owned)
                for assignor in config.assignors
            ]
        except Exception as error:  # an assignor may be the user's, and raise anything
            self.failed(now_ms, error=wrapped(error, "the user data of an assignor"))
            return
        if self._stats.rebalance_started_ms is None:
            self._stats.rebalance_started_ms = now_ms
        self._stats.joins_sent += 1
        self.join = Join()
        standing.join_sent()
        self._holdings.note_joining()
        request = requests.join(config, standing.generation, protocols, self._reason)
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_GRACE_MS)
        self._outbox.send(Kind.JOIN, request, now_ms, timeout_ms=timeout_ms)

    def id_given(self, member_id: str, now_ms: int) -> None:
        """Join again with the member id that the coordinator has given out (KIP-394)."""
        self._standing.id_given(member_id)
        self.join = None
        # At once, without waiting for a poll, because the coordinator holds a place for that id.
        if self._lookup.coordinator is not None:
            self.send(now_ms)

    def error_for(self, code: int, detail: str | None = None) -> KafkaError:
        """The error for a refused JoinGroup, with the setting that is the reason."""
        config = self._config
        context = f"joining group {config.group_id}"
        if code == Code.UNSUPPORTED_VERSION and config.group_instance_id is not None:
            context += " (this broker is too old for static members: unset group_instance_id)"
        if code == Code.INVALID_SESSION_TIMEOUT:
            context += f" with session_timeout_ms={config.session_timeout_ms}"
        if code == Code.FENCED_INSTANCE_ID:
            context += f" with group_instance_id={config.group_instance_id!r}"
        return error_for(code, context, detail)

    def joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        """JoinGroup succeeded: assign partitions as the leader, or ask for this member's assignment."""
        if response.protocol_type not in (None, "", PROTOCOL_TYPE):
            kind = response.protocol_type
            error = InconsistentGroupProtocolError(
                f"group {self._config.group_id} is of type {kind!r}, not {PROTOCOL_TYPE!r}: choose another group_id"
            )
            self.failed(now_ms, error=error)
            return
        self._lookup.alive()
        self._failures = 0
        self._standing.joined(Generation(response.generation_id, response.member_id), response.protocol_name)
        self._live.joined(now_ms)
        try:
            self._config.assignor(response.protocol_name)
        except IllegalStateError as error:
            self.failed(now_ms, error=error)
            return
        if response.leader == response.member_id:
            self.lead(response, now_ms)
        else:
            self._leader.resign()
            self._send_sync([], now_ms)

    def lead(self, response: JoinGroupResponse, now_ms: int) -> None:
        """As the leader, assign partitions once the metadata of all the group's topics is there."""
        assert self.join is not None
        first, self.join.waiting = self.join.waiting is None, response
        try:
            given = self._leader.divide(response, first=first)
        except Exception as error:  # of the user's assignor: it is for the user's thread, not for the one that runs it
            doing = f"dividing partitions with the assignor {response.protocol_name!r}"
            self.failed(now_ms, error=wrapped(error, doing))
            return
        if given is None:
            self._outbox.want_metadata()
            return
        self.join.waiting = None
        self._send_sync(pack(given), now_ms)

    # --- SyncGroup ------------------------------------------------------------------------------------------------

    def _send_sync(self, assignments: list[SyncGroupRequest.SyncGroupRequestAssignment], now_ms: int) -> None:
        request = requests.sync(self._config, self._standing.generation, self._standing.assignor, assignments)
        self._outbox.send(Kind.SYNC, request, now_ms)

    def synced(self, pending: Pending, response: SyncGroupResponse, now_ms: int) -> None:
        """SyncGroup succeeded: the round has an assignment, which waits for the user's thread."""
        assert self.join is not None
        protocol = self._standing.assignor
        if response.protocol_type not in (None, "", PROTOCOL_TYPE) or response.protocol_name not in (
            None,
            "",
            protocol,
        ):
            error = InconsistentGroupProtocolError(
                f"group {self._config.group_id} answered SyncGroup for protocol "
                f"{response.protocol_type}/{response.protocol_name}, not {PROTOCOL_TYPE}/{protocol}"
            )
            self.failed(now_ms, error=error)
        elif self._standing.state is not MemberState.COMPLETING_REBALANCE or not self._standing.counted:
            self.failed(now_ms, at_once=True)
            self.out(keep_member_id=True)
        else:
            self._standing.synced()
            self.needed = False
            self._reason = ""
            self.join.assignment = response.assignment
            self._live.confirmed(pending.sent_ms, now_ms)
            self._stats.times.sync.record(now_ms - pending.sent_ms, now_ms)
            self._stats.rebalanced(now_ms)
            if self._leader.inherits:
                self._outbox.send(Kind.DESCRIBE, requests.describe(self._config), now_ms)

    # --- DescribeGroups, by a leader that is told to skip the assignment ---------------------------------------------

    def describe_again(self, now_ms: int) -> None:
        """Ask again if a coordinator that had moved, or could not be reached, has not described the group.

        This is called when a heartbeat is answered, so that the coordinator is known and is not asked too often.
        """
        idle = self.join is None and not self.needed and not self._outbox.in_flight(Kind.DESCRIBE)
        if self._leader.inherits and idle:
            self._outbox.send(Kind.DESCRIBE, requests.describe(self._config), now_ms)

    def described(self, response: DescribeGroupsResponse | None) -> None:
        """The assignment that a leader has inherited. If it will never be told, the leader makes another one."""
        if not self._leader.inherits:
            return
        try:
            counts = None if response is None else counts_assigned(response)
        except ValueError:  # not what leaders write
            counts = None
        if counts is None:
            self.request("it is not known on which metadata the group's assignment was made")
        elif not self._leader.inherit(counts):
            self._outbox.want_metadata()
