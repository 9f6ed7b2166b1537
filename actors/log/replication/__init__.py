"""Replication of one partition's log: what a leader and its followers say to each other, and what they hold true.

Sans-IO: no clock, no socket, no metadata. Times are arguments (monotonic ms), messages are values. Who leads at
which epoch, and which in-sync set is recorded, is the controller's word, which the driver passes in.
"""

from actors.log.replication.follower import FollowerReplica, trivially_matched
from actors.log.replication.leader import LeaderReplica, Proposal
from actors.log.replication.messages import Ack, LeaderLog, NoLog, Outcome, Push, ReplicaLog

__all__ = [
    "Ack",
    "FollowerReplica",
    "LeaderLog",
    "LeaderReplica",
    "NoLog",
    "Outcome",
    "Proposal",
    "Push",
    "ReplicaLog",
    "trivially_matched",
]
