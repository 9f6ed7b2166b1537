"""A member as the leader of its group: the topics it watches, and when it assigns partitions anew. Sans-IO.

`leader_assignment` makes the assignment, with an assignor.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.leader_assignment import Given, Snapshot, divide, group_topics, read_members, snapshot
from actors.client.group.classic.round import Join
from actors.client.group.holdings import Holdings
from actors.client.net.metadata import MetadataView
from actors.wire.messages import JoinGroupResponse


class Leader:
    """`view` is the newest metadata; `assigned_on` is the part of it that the last assignment was made on, if any.

    `inherits`: the group goes on with an assignment that this static member's last incarnation has made (KIP-814), and
    it is not known yet on which metadata.
    """

    def __init__(self, config: MembershipConfig, holdings: Holdings) -> None:
        self._config = config
        self._holdings = holdings
        self._topics: frozenset[str] = frozenset()
        self._outdated = -1  # the assignment is made on metadata newer than this version
        self.view = MetadataView()
        self.assigned_on: Snapshot | None = None
        self.inherits = False

    def outdate(self) -> None:
        """Have the next assignment wait for newer metadata than there is now."""
        self._outdated = self.view.version

    def resign(self) -> None:
        """Stop being the leader: watch no topics of other members."""
        self.assigned_on = None
        self.inherits = False
        self._topics = frozenset()

    def watched_topics(self, join: Join | None) -> frozenset[str]:
        """The topics whose metadata is needed for the group."""
        waiting = join.waiting if join else None
        return self._topics | (group_topics(read_members(waiting.members)) if waiting else frozenset())

    @property
    def outgrown(self) -> bool:
        """True if the metadata has changed since the last assignment was made."""
        if self.assigned_on is None or self.view.version <= self._outdated or not self.view.covers(self._topics):
            return False
        counts, racks = self.assigned_on
        now, racks_now = snapshot(self.view, self._topics, self._config.client_rack)
        return now != counts or racks not in (None, racks_now)

    def divide(self, response: JoinGroupResponse, *, first: bool) -> Given | None:
        """The assignments of all members; None until the metadata of all the group's topics is there.

        `first`: this is the first attempt of the round. Raises what the assignor raises, and IllegalStateError.
        """
        members = read_members(response.members)
        topics = group_topics(members) | self._holdings.topics
        if first and not topics <= self._holdings.topics:
            # Topics that only others subscribe to were not watched so far; Kafka asks anew each time, too.
            self.outdate()
        if self.view.version <= self._outdated or not self.view.covers(topics):
            return None
        assignor = self._config.assignor(response.protocol_name)
        given = {} if response.skip_assignment else divide(assignor, self._config.protocol, members, self.view)
        self._topics = topics | {tp.topic for partitions in given.values() for tp in partitions}
        self.inherits = response.skip_assignment
        self.assigned_on = None if self.inherits else snapshot(self.view, self._topics, self._config.client_rack)
        return given

    def inherit(self, counts: Mapping[str, int]) -> bool:
        """Take an assignment over that was made when topics had so many partitions; False if newer metadata is needed.

        Partitions that have come since have no owner, and the metadata of today cannot tell which. It may also be older
        than the assignment. Racks are not known.
        """
        self.inherits = False
        self._topics |= counts.keys()
        self.assigned_on = (dict(counts), None)
        if any(count > self.view.partitions.get(topic, 0) for topic, count in counts.items()):
            self.outdate()
        return self.view.version > self._outdated and self.view.covers(self._topics)
