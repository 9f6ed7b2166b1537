"""Classic groups: members assign, the coordinator counts generations (KIP-62, and the group protocol before it).

A *group* divides the partitions of some topics among its members, so that each partition has one owner. The work is
split: the coordinator knows the members, and one member, the *leader*, divides the partitions. The coordinator never
reads an assignment.

**A rebalance has two rounds.** Members send JoinGroup with the protocols they speak; it is held until all members of
the last generation have come, or their rebalance timeout is over. Then all are answered at once: the generation has a
new number, one protocol that all support, and a leader, which alone gets the list of members. Members then send
SyncGroup, the leader with the assignment. The assignment is written to the log, and when it has committed, each member
is answered with its share. Requests with an older generation are refused, so that a member that was away too long can
no longer commit for partitions that others have now. `GroupState` (states.py) has the states and their transitions;
rebalance.py drives them, join.py and sync.py have these two requests, membership.py heartbeats and leaving.

Some refinements concern several of these files:

- a new member first gets an id, with MEMBER_ID_REQUIRED, and joins with it, so that a client that gets no answer leaves
  nothing behind (KIP-394);
- the first rebalance of an empty group waits a little for others (KIP-134);
- a *static* member has an instance id and keeps its place when it restarts (KIP-345, KIP-814 for the leader).

**The durable state** is one record for each group (records.py): the group with its last assignment. It has the whole
state of the group, and the next record waits until it has committed. Parked requests and timers are lost with the
process: members join again, or find everything as it was if their group was Stable.
"""
