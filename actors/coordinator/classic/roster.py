"""The members of a classic group, and what follows from them alone: the leader, and the protocols that all support."""

from __future__ import annotations

from actors.coordinator.classic.member import Member, ParkedJoin, Protocols
from actors.coordinator.classic.messages import JoinGroupMember, JoinGroupRequest
from actors.coordinator.classic.records import subscribed_topics
from actors.coordinator.groups.roster import Places


class Roster:
    """The members. Its methods keep the counters in step with them."""

    __slots__ = (
        "_places",
        "awaiting_join",
        "by_id",
        "by_instance",
        "expected",
        "identify",
        "leader_id",
        "supported_protocols",
    )

    def __init__(self) -> None:
        self._places: Places[Member] = Places()
        self.by_id, self.by_instance = self._places.by_id, self._places.by_instance
        self.identify = self._places.identify
        self.leader_id: str | None = None
        self.awaiting_join = 0
        """The number of members with a parked join."""
        self.expected = 0
        """The largest number of members that new ones have announced; 0 if they have announced nothing."""
        self.supported_protocols: dict[str, int] = {}
        """The number of members that support each protocol."""

    # -- places

    def add(self, member: Member) -> None:
        """Add a member; the first one is the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count_protocols(member.protocols, 1)
        self._place(member)

    def _place(self, member: Member) -> None:
        self._places.put(member)
        self.awaiting_join += member.parked_join is not None

    def remove(self, member: Member) -> ParkedJoin | None:
        """Take a member out; its parked join, if any, which the caller has to answer."""
        parked = self.take_join(member)
        self._displace(member)
        self._count_protocols(member.protocols, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.by_id), None)
        return parked

    def _displace(self, member: Member) -> None:
        self._places.take(member)
        self.awaiting_join -= member.parked_join is not None

    def replace(self, member: Member, member_id: str) -> None:
        """Give a static member's place, and leadership if it has it, to its next incarnation."""
        led = self.leader_id == member.member_id
        self._displace(member)
        member.member_id = member_id
        member.is_new = False
        self._place(member)
        if led:
            self.leader_id = member_id

    def update(self, member: Member, request: JoinGroupRequest) -> None:
        """Take over timeouts and protocols from a member's latest join."""
        self._count_protocols(member.protocols, -1)
        member.protocols = request.protocols
        member.process = request.process or member.process
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.effective_rebalance_timeout_ms
        self._count_protocols(member.protocols, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Note a member's state where it differs from its group's record."""
        member.assignment = assignment

    # -- joins

    def park_join(self, member: Member, parked: ParkedJoin) -> ParkedJoin | None:
        """Park a join; the one it supersedes, if any."""
        older = member.parked_join
        self.awaiting_join += older is None
        member.parked_join = parked
        if member.is_new:  # older members' announcements are no longer true
            self.expected = max(self.expected, parked.request.expected_members)
        return older

    def take_join(self, member: Member) -> ParkedJoin | None:
        """The member's parked join, if any, which the caller has to answer."""
        parked = member.parked_join
        self.awaiting_join -= parked is not None
        member.parked_join = None
        return parked

    @property
    def is_whole(self) -> bool:
        """True if all members that were announced have come."""
        return 0 < self.expected <= len(self.by_id)

    @property
    def is_short(self) -> bool:
        """True if members were announced that have not come."""
        return self.expected > len(self.by_id)

    def absent(self) -> list[Member]:
        """The members that have not joined again."""
        return [member for member in self.by_id.values() if member.parked_join is None]

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined again, else make it the oldest member that has. False if none has."""
        joined = [member.member_id for member in self.by_id.values() if member.parked_join is not None]
        if joined and self.leader_id not in joined:
            self.leader_id = joined[0]
        return bool(joined)

    def set_leader(self, member_id: str | None) -> None:
        """Make the leader the one that the group's record names."""
        self.leader_id = member_id

    # -- what they have in common

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members; 0 without members."""
        return max((m.rebalance_timeout_ms for m in self.by_id.values()), default=0)

    def _count_protocols(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            count = self.supported_protocols.get(name, 0) + by
            if count:
                self.supported_protocols[name] = count
            else:
                del self.supported_protocols[name]

    def all_support_one_of(self, protocols: Protocols) -> bool:
        """True if every member supports one of these protocols."""
        everyone = len(self.by_id)
        return any(self.supported_protocols.get(name) == everyone for name, _ in protocols)

    def vote(self, instead: tuple[Member, Protocols] | None = None) -> str | None:
        """The protocol the members elect; with `instead`, as if that member had those protocols.

        Each votes for the first of its own list that all support. A tie goes to the one voted for first.
        """
        lists = [
            [name for name, _ in (instead[1] if instead and m is instead[0] else m.protocols)]
            for m in self.by_id.values()
        ]
        common = set.intersection(*map(set, lists)) if lists else set()
        votes: dict[str, int] = {}
        for names in lists:
            choice = next((name for name in names if name in common), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__, default=None)

    def topics(self, protocol_name: str | None) -> frozenset[str] | None:
        """The topics that the members of a consumer group read, all together; None if that cannot be told."""
        if not self.by_id:
            return frozenset()
        if protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.by_id.values():
            subscription = subscribed_topics(member.metadata(protocol_name))
            if subscription is None:
                return None
            topics |= subscription
        return frozenset(topics)

    def listed(self, protocol_name: str | None) -> tuple[JoinGroupMember, ...]:
        """The members, as JoinGroup's answer shows them to the leader."""
        return tuple(
            JoinGroupMember(m.member_id, m.group_instance_id, m.metadata(protocol_name)) for m in self.by_id.values()
        )
