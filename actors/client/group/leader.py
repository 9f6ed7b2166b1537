"""A member as the leader of its group: whose topics it watches, when it may divide, whether that still fits. Sans-IO.

The assignment itself is made in `leader_assignment`, by an assignor.
"""

from __future__ import annotations

from actors.client.group.holdings import Holdings
from actors.client.group.leader_assignment import Given, Snapshot, divide, group_topics, read_members, snapshot
from actors.client.group.member_types import Join, MembershipConfig
from actors.client.net.metadata import MetadataView
from actors.wire.messages import JoinGroupResponse


class Leader:
    """`view` is the metadata as last refreshed; `assigned_on` what of it the last assignment was made on, if any."""

    def __init__(self, config: MembershipConfig, holdings: Holdings) -> None:
        self._config = config
        self._holdings = holdings
        self._topics: frozenset[str] = frozenset()
        self._outdated = -1  # the assignment is made on metadata newer than this version
        self.view = MetadataView()
        self.assigned_on: Snapshot | None = None

    def outdate(self) -> None:
        """The metadata there is will not do for the next assignment."""
        self._outdated = self.view.version

    def resign(self) -> None:
        """Watch nobody else's topics any more."""
        self.assigned_on = None
        self._topics = frozenset()

    def watched_topics(self, join: Join | None) -> frozenset[str]:
        """The topics whose metadata is needed for the group's sake."""
        waiting = join.waiting if join else None
        return self._topics | (group_topics(read_members(waiting.members)) if waiting else frozenset())

    @property
    def outgrown(self) -> bool:
        """Whether the metadata is not what the last assignment was made on any more."""
        if self.assigned_on is None:
            return False
        now = snapshot(self.view, self._topics, self._config.client_rack)
        return self.view.covers(self._topics) and now != self.assigned_on

    def divide(self, response: JoinGroupResponse, *, first: bool) -> Given | None:
        """Everyone's share, as soon as the metadata of all the group's topics is there; None until then.

        `first` = the first attempt of this round. Raises what the assignor raises, and IllegalStateError.
        """
        members = read_members(response.members)
        topics = group_topics(members) | self._holdings.topics
        if first and not topics <= self._holdings.topics:
            # Nobody has told us of changes to what only others want (Kafka asks anew each time, too).
            self.outdate()
        if self.view.version <= self._outdated or not self.view.covers(topics):
            return None
        assignor = self._config.assignor(response.protocol_name)
        given = {} if response.skip_assignment else divide(assignor, self._config.protocol, members, self.view)
        self._topics = topics | {tp.topic for partitions in given.values() for tp in partitions}
        self.assigned_on = snapshot(self.view, self._topics, self._config.client_rack)
        return given
