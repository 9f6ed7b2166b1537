"""Group coordination itself: who is in a group, which generation it has, what it has committed.

A *group* divides the partitions of some topics among its members, so that each partition has one owner. Kafka splits
the work: the coordinator knows who is there, and one member, the *leader*, decides who gets what. The coordinator
never reads an assignment (KIP-62 and the group protocol before it).

**A rebalance has two rounds.** Members send JoinGroup with the protocols they speak; it is held until all members of
the last generation have come, or their rebalance timeout is over. Then everybody is answered at once: the generation
has a new number, one protocol that all support, and a leader, who alone is told of all members. Members then send
SyncGroup, the leader with the assignment; it is written to the log, and once that has it, each is answered with its
share. In between, what a member says of an older generation is refused, so that a member that was away too long can
no longer commit for partitions that others have now. `GroupState` (group.py) has the states and what moves a group
from one to the next; rebalance.py drives it, join.py and sync.py have the requests, membership.py the heartbeats by
which a member lives, and leaving.

Some refinements are found all over these files:

- a new member first gets an id, with MEMBER_ID_REQUIRED, and joins with it, so that a client that never hears us
  leaves nothing behind (KIP-394);
- the first rebalance of an empty group waits a little for others (KIP-134);
- a *static* member has an instance id and keeps its place when it restarts (KIP-345, KIP-814 for the leader);
- offsets and empty groups go some days after they were last used (KIP-211; expiry.py), and offsets of deleted topics
  at once (topic_deletion.py).

**What is durable.** A *shard* (shard.py) is one partition of `__consumer_offsets` with the groups whose ids hash to
it. Its log holds two kinds of records (records.py): a group with its last assignment, and a committed offset. Only
these survive: `DurableState` (durable.py) is what they say up to the high watermark, and nothing but its `replay`
changes it, so loading the log always gives the same. Who is parked and which timers run is live state, in `Group`,
and is lost with the process: members join again, or find everything as it was if their group was Stable.

**A request's way.** A request either is answered at once, or makes a `Write`: records, with what to do when they have
committed, have been refused, or are late (writer.py). All of one turn share an append. Live state and the answer wait
for the commit; so there is nothing to undo when an append fails. If it is unknown whether it did, the shard forgets
everything and is loaded again.

Sans-IO: no socket, clock, randomness or Ray here, and no knowledge of the wire or the log's batches. Time, ids and
outcomes are handed in; requests, answers and appends are plain values (messages.py). `Shard` is the way in.
"""

from actors.coordinator.config import CoordinatorConfig
from actors.coordinator.errors import Error
from actors.coordinator.group import GroupState, IllegalTransitionError, RebalanceEvent
from actors.coordinator.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteTopicOffsetsRequest,
    DeleteTopicOffsetsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MaySleepRequest,
    MaySleepResponse,
    Now,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
    Token,
    TopicOffsets,
    error_response,
)
from actors.coordinator.metrics import Metrics
from actors.coordinator.records import CorruptRecordError, Record
from actors.coordinator.shard import GroupStatus, Shard, ShardState
from actors.coordinator.writer import Append

__all__ = [
    "Append",
    "CoordinatorConfig",
    "CorruptRecordError",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteTopicOffsetsRequest",
    "DeleteTopicOffsetsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedMember",
    "Error",
    "FetchedOffset",
    "GroupState",
    "GroupStatus",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IllegalTransitionError",
    "JoinGroupMember",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "LeavingMember",
    "LeftMember",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
    "MaySleepRequest",
    "MaySleepResponse",
    "Metrics",
    "Now",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "RebalanceEvent",
    "Record",
    "Request",
    "Response",
    "Shard",
    "ShardState",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "Token",
    "TopicOffsets",
    "error_response",
]
