"""Replication of one partition's log: the rules by which a leader and its followers keep the same records.

One of a partition's replicas leads: the controller names it, under a leader epoch that grows with each election. The
leader appends the records of clients and pushes them to the followers, which keep the same records at the same offsets.
The aim: a record that was acknowledged with acks=all survives the loss of min.insync.replicas - 1 brokers, and no
reader ever sees it change.

**The high watermark.** Records below it are committed: consumers may read them, and no replica will ever truncate them.
It is the least log end over the in-sync set, that is, the replicas that keep up and may lead next; a member's log end
is the one that it has acknowledged. A new leader first waits until all members have acknowledged, under its own epoch,
everything that stood in its log when the epoch began. Until then its watermark may be behind one that clients have seen
(KIP-207). The watermark also stands still while the set has fewer members than min.insync.replicas (KIP-966).

**The in-sync set.** It is recorded by the controller; the leader proposes changes (KIP-497). It drops a follower that
has not been caught up for replica.lag.time.max.ms, so that a dead one delays nobody, and adds one that has
reached the watermark and has everything from before the epoch. While the controller decides, either set may be in
force, so the watermark waits for the members of both: a removal counts once it is recorded, a joiner as soon as it is
proposed. A proposal names the partition epoch it starts from and the broker epoch of each member. If either is no
longer the controller's, it is refused: the member may be another process by now, without the records (KIP-903).

**A push** carries all there is from an offset on, and the leader epoch of the record before it. If that is the epoch
the follower has there, the logs are the same up to it, because each epoch had one leader and each leader wrote each
offset once (KIP-101). The follower then appends what is new, takes over watermark and log start, and answers MATCHED
with its log end. Otherwise it answers MISMATCHED and says where each of its epochs ends. The leader finds the largest
epoch they share, and pushes again from where that ends in the shorter log; so the two come together in few steps. The
follower cuts off its records beyond that, never below its own watermark, unless the election was unclean. A push also
carries the epochs themselves, because an epoch counts even if compaction has left none of its records.

**A leader that is no longer one** cannot do harm. Followers answer FENCED to any epoch older than one they know, which
deposes that leader. Without its followers its watermark does not advance. Its lease says whether it may still serve at
all; leases belong to the broker (actors/broker/replication). An acknowledgement counts only for the connection and the
log it was given for: when either may be a new one, the leader drops what it knew of the follower and asks again. `Push`
names the numbers by which late messages are ignored.

**In Kafka** followers fetch; here leaders push, for reasons that docs/decisions gives. The rules are the same, and so
are the faults that they prevent.

`leader` and `follower` are the two sides, `messages` has their messages, and the interface of a log for them. All is
sans-IO: no clock, no socket, no metadata. Times are arguments (monotonic ms), messages are values, and the driver
passes in the controller's decisions. So a simulation can test the rules with thousands of failures
(tests/support/replication_simulator.py).

Sources: KIP-101 and KIP-279 (truncation by leader epoch), KIP-207 (offsets after an election), KIP-497
(AlterPartition), KIP-903 (broker epochs in it), KIP-966 (eligible leaders, the watermark and min.insync.replicas),
KIP-107 (deleting records: `start_in_sync`); W. Lin and others, PacificA (2008), whose primary, secondaries and
configuration manager are this leader, these followers and the controller.
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
