"""Classic groups: members assign, the coordinator counts generations (KIP-62, and the group protocol before it).

A *group* divides the partitions of some topics among its members, so that each partition has one owner. Kafka splits
the work: the coordinator knows the members, and one of them, the *leader*, divides the partitions. The coordinator
never reads an assignment.

**A rebalance has two rounds.** Members send JoinGroup with the protocols they speak; it is held until all members of
the last generation have come, or their rebalance timeout is over. Then everybody is answered at once: the generation
has a new number, one protocol that all support, and a leader, who alone is told of all members. Members then send
SyncGroup, the leader with the assignment; it is written to the log, and once that has it, each is answered with its
share. In between, requests with an older generation are refused, so that a member that was away too long can no longer
commit for partitions that others have now. `GroupState` (states.py) has the states and what moves a group from one to
the next; rebalance.py drives it, join.py and sync.py have the requests, membership.py the heartbeats by which a member
lives, and leaving.

Some refinements are found all over these files:

- a new member first gets an id, with MEMBER_ID_REQUIRED, and joins with it, so that a client that never hears us
  leaves nothing behind (KIP-394);
- the first rebalance of an empty group waits a little for others (KIP-134);
- a *static* member has an instance id and keeps its place when it restarts (KIP-345, KIP-814 for the leader).

**The durable state** is one record for each group (records.py): the group with its last assignment. It holds all of the
group, and the next one waits for it. Parked requests and timers are lost with the process: members join again, or find
everything as it was if their group was Stable.
"""
